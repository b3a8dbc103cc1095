// Versions and ranges as gpustack/versions.py reads them: numbers first, then a suffix.

const versionCache = new Map();

function version(text) {
  let found = versionCache.get(text);
  if (!found) {
    const head = /^\d+(?:\.\d+)*/.exec(text)[0];
    const numbers = head.split(".").map(Number);
    const key = numbers.slice();
    while (key.length > 1 && key[key.length - 1] === 0) key.pop();
    const suffix = text.slice(head.length).replace(/\d+/g, (digits) => digits.padStart(8, "0"));
    const rank = !suffix ? 1 : /^(\.post|-|\+|u)/.test(suffix) ? 2 : 0;
    found = { text, numbers, key, rank, suffix };
    versionCache.set(text, found);
  }
  return found;
}

function compareNumbers(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

function compareVersions(a, b) {
  const one = version(a), two = version(b);
  return compareNumbers(one.key, two.key) || one.rank - two.rank ||
    (one.suffix < two.suffix ? -1 : one.suffix > two.suffix ? 1 : 0);
}

function hasPrefix(numbers, prefix) {
  return prefix.every((number, place) => (numbers[place] ?? 0) === number);
}

const rangeCache = new Map();

function range(text) {
  let found = rangeCache.get(text);
  if (!found) {
    found = text.split("|").map((part) => part.split(",").map((raw) => raw.trim()).filter(Boolean).map((raw) => {
      const match = /^(!=|==|~=|>=|<=|<|>)\s*([0-9A-Za-z][0-9A-Za-z.+-]*?)(\.\*)?$/.exec(raw);
      return { operator: match[1], text: match[2], numbers: version(match[2]).numbers, wildcard: Boolean(match[3]) };
    }));
    rangeCache.set(text, found);
  }
  return found;
}

function clauseHolds(clause, text) {
  const order = compareVersions(text, clause.text);
  const numbers = version(text).numbers;
  switch (clause.operator) {
    case "==": return clause.wildcard ? hasPrefix(numbers, clause.numbers) : order === 0;
    case "!=": return !(clause.wildcard ? hasPrefix(numbers, clause.numbers) : order === 0);
    case ">=": return order >= 0;
    case "<=": return order <= 0;
    case ">": return order > 0;
    case "<": return order < 0;
    default: return order >= 0 && hasPrefix(numbers, clause.numbers.slice(0, -1));
  }
}

function isWithin(text, rangeText) {
  return range(rangeText).some((clauses) => clauses.every((clause) => clauseHolds(clause, text)));
}

// The version that "==X" pins, or null.
function exactVersion(rangeText) {
  const alternatives = range(rangeText);
  const clause = alternatives.length === 1 && alternatives[0].length === 1 ? alternatives[0][0] : null;
  return clause && clause.operator === "==" && !clause.wildcard ? clause.text : null;
}

function isLine(rangeText, candidate) {
  const pinned = exactVersion(rangeText);
  if (pinned === null) return false;
  const wanted = version(pinned).numbers, numbers = version(candidate).numbers;
  return numbers.length > wanted.length && hasPrefix(numbers, wanted);
}

function isMeant(rangeText, candidate) {
  return isWithin(candidate, rangeText) || isLine(rangeText, candidate);
}

function unique(list) {
  return [...new Set(list)];
}

// Each entry once, compared by content.
function uniqueByContent(list) {
  const seen = new Set();
  return list.filter((one) => {
    const key = JSON.stringify(one);
    return !seen.has(key) && seen.add(key);
  });
}

function joinAnd(texts) {
  return [texts.slice(0, -1).join(", "), ...texts.slice(-1)].filter(Boolean).join(" and ");
}

function capitalised(sentence) {
  const first = sentence.split(" ")[0];
  const isPlain = /^[a-z]+$/.test(first) && !/^(nvcc|lib|glibc|gcc)/.test(first);
  return isPlain ? sentence[0].toUpperCase() + sentence.slice(1) : sentence;
}
