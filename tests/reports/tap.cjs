// Reads TAP files by the parser that node-tap is built on; writes what it understood as JSON, one object a file.
const { readFileSync } = require("node:fs");
const { Parser } = require("tap-parser");

const told = process.argv.slice(2).map((path) => {
  const parser = new Parser();
  const points = [];
  const extras = [];
  let version = null;
  let end = null;
  parser.on("version", (number) => (version = number));
  parser.on("assert", (one) => points.push(one));
  for (const event of ["extra", "comment", "bailout", "child", "pragma"]) {
    parser.on(event, (what) => extras.push([event, String(what)]));
  }
  parser.on("complete", (results) => (end = results));
  parser.end(readFileSync(path));
  return { version, points, extras, end };
});
console.log(JSON.stringify(told));
