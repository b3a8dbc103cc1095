// The page itself: choices above, the answer below; the address keeps the choice.

const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const book = new Rules(facts);
const ANY = "not asked about";
const WORDS = { compatible: "\u2713 Compatible", incompatible: "\u2717 Incompatible", unknown: "? Unknown" };
const KINDS = { datacenter: "Data centre", professional: "Professional", consumer: "GeForce and consumer" };

function make(tag, text = "", more = {}) {
  const found = document.createElement(tag);
  if (text) found.textContent = text;
  return Object.assign(found, more);
}

function option(text, value = text) {
  return make("option", text, { value });
}

function byKey() {
  const found = new Map();
  for (const system of facts.systems) found.set(system.key, [...(found.get(system.key) ?? []), system]);
  return found;
}

const systems = byKey();
const gpus = new Map(facts.gpus.map((gpu) => [gpu.name, gpu]));

function fillOnce() {
  const groups = new Map(Object.values(KINDS).concat("Other").map((name) => [name, make("optgroup", "", { label: name })]));
  for (const gpu of [...facts.gpus].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }))) {
    groups.get(KINDS[gpu.kind] ?? "Other").append(option(gpu.name));
  }
  $("gpu").append(option("no GPU named", ""), ...groups.values());
  for (const [key, [system]] of systems) $("os").append(option(system.name, key));
  for (const name of facts.components) {
    const label = make("label", `${facts.titles[name]} `.replace("driver", "Driver"));
    label.append(make("select", "", { id: `c-${name}` }));
    $("components").append(label);
  }
  $("python").append(option("the system's own", ""), ...facts.pythons.map((text) => option(text)));
  $("framework").append(option("none", ""), ...Object.keys(facts.frameworks).map((name) => option(name)));
}

function system() {
  const found = systems.get($("os").value) ?? [...systems.values()][0];
  return found.find((one) => one.arch === $("arch").value) ?? found[0];
}

// The options of a list; a choice that is no longer among them is dropped, and said so.
function refill(list, entries, dropped, what) {
  const before = list.value;
  list.replaceChildren(...entries);
  list.value = before;
  if (list.selectedIndex < 0) {
    list.selectedIndex = 0;
    if (before) dropped.push(`${what} ${before}`);
  }
}

function refillAll() {
  const dropped = [], gpu = gpus.get($("gpu").value);
  const all = systems.get($("os").value) ?? [...systems.values()][0];
  const possible = all.filter((one) => !gpu?.arch || gpu.arch === one.arch);
  refill($("arch"), (possible.length ? possible : all).map((one) => option(one.arch)), [], "");
  if (!possible.length) dropped.push(`${gpu.name} (its hosts are ${gpu.arch}: no ${all[0].name} of the facts is)`);
  if (!possible.length) $("gpu").value = "";
  const question = new Question(book, new Host(facts, system(), null), {});
  for (const name of facts.components) {
    const rows = question.releasedHere(name);
    refill($(`c-${name}`), [option(ANY, ""), ...rows.map((row) => option(row.v))], dropped, facts.titles[name]);
  }
  const builds = (facts.frameworks[$("framework").value] ?? []).map((row) => numberOf(row));
  refill($("build"), unique(builds).map((text) => option(text)), [], "");
  $("build").disabled = !builds.length;
  $("dropped").textContent = dropped.length ? `Not on ${system().name} ${system().arch}, so no longer chosen: ${dropped.join(", ")}.` : "";
}

function choice() {
  const versions = {};
  for (const name of facts.components) if ($(`c-${name}`).value) versions[name] = $(`c-${name}`).value;
  const name = $("framework").value;
  return { system: system(), gpu: gpus.get($("gpu").value) ?? null, python: $("python").value, versions,
    framework: name ? { name, version: $("build").value } : null };
}

function command(chosen) {
  const words = Object.entries(chosen.versions).map(([name, text]) => `${name}==${text}`);
  if (chosen.framework) words.push(`${chosen.framework.name}==${chosen.framework.version}`);
  const gpu = chosen.gpu ? ` --gpu "${chosen.gpu.name}"` : "";
  const python = chosen.python ? ` --python ${chosen.python}` : "";
  return `gpustack check ${words.join(" ")} --os ${chosen.system.key} --arch ${chosen.system.arch}${gpu}${python}`;
}

function sourceList(sources) {
  if (!sources?.length) return [];
  const line = make("div", sources.length > 1 ? "Sources: " : "Source: ", { className: "sources" });
  sources.forEach((address, place) => {
    if (place) line.append(", ");
    line.append(/^https?:\/\//.test(address) ? make("a", address.replace(/^https?:\/\//, ""), { href: address, rel: "noreferrer" }) : address);
  });
  return [line];
}

function part(title, entries) {
  if (!entries.length) return [];
  const list = make("ul");
  for (const entry of entries) {
    const item = make("li", typeof entry === "string" ? entry : entry.reason);
    if (entry.between) item.append(make("div", `between ${entry.between.join(" and ")}`, { className: "between" }));
    item.append(...sourceList(entry.sources));
    list.append(item);
  }
  return [make("h3", title), list];
}

// What would do: each hint is a choice that the rules were asked about again.
function hintPart(hints) {
  if (!hints.length) return [];
  const box = make("div");
  for (const text of hints) {
    const found = [...text.matchAll(/([a-z0-9-]+)==([0-9][^\s,;]*)/g)].filter(([, name]) => $(`c-${name}`) || name === $("framework").value);
    const button = make("button", text.replace(/^try /, "Take "), { type: "button" });
    button.addEventListener("click", () => {
      for (const [, name, number] of found) ($(`c-${name}`) ?? $("build")).value = number;
      changed();
      $("verdict").tabIndex = -1;
      $("verdict").focus();
    });
    box.append(found.length ? button : make("p", text));
  }
  return [make("h3", "What would do"), box];
}

let latest = 0;

function show() {
  const chosen = choice(), turn = ++latest;
  const isAsked = Object.keys(chosen.versions).length > 0 || chosen.framework;
  $("answer").className = "";
  $("details").replaceChildren();
  if (!isAsked) {
    $("verdict").textContent = "Choose a version";
    return;
  }
  const answer = check(facts, book, chosen, { hints: false });
  $("verdict").textContent = WORDS[answer.verdict];
  $("answer").className = answer.verdict;
  const hints = make("div");
  const notes = [...part("Judged by the defaults of the system", answer.assumed.map((one) =>
    `${facts.titles[one.property] ?? one.property} ${one.value}, the default of ${one.system} (${one.option} of gpustack check gives another)`)),
    ...part("Not judged", unique(answer.not_judged.map((one) => `${one.reason} (${one.option} of gpustack check gives it)`)))];
  const more = make("details");
  more.append(make("summary", "What was assumed, and what could not be judged"), ...notes);
  $("details").append(...part("Why not", answer.conflicts), ...part("What is unknown", answer.unknown), hints,
    ...part("Mind", answer.warnings), ...part("Security bulletins", answer.security), ...(notes.length ? [more] : []),
    make("h3", "The same on the command line"), make("pre", command(chosen), { tabIndex: 0 }));
  if (answer.verdict === "compatible" && !answer.warnings.length) {
    $("details").prepend(make("p", "No fact refuses it, and a fact covers every version and every pair of them."));
  }
  if (answer.conflicts.length) {
    setTimeout(() => {
      if (turn === latest) hints.append(...hintPart(check(facts, book, chosen).hints));
    });
  }
}

function remember() {
  const words = new URLSearchParams();
  for (const list of document.querySelectorAll("select")) {
    if (list.value && !(list.id === "build" && !$("framework").value)) words.set(list.id.replace(/^c-/, ""), list.value);
  }
  history.replaceState(null, "", `#${words}`);
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  const set = (name) => {
    const list = $(name) ?? $(`c-${name}`);
    if (words.has(name) && list?.tagName === "SELECT") list.value = words.get(name);
  };
  $("os").value = "ubuntu24.04";
  ["gpu", "os", "python", "framework"].forEach(set);
  refillAll();
  ["arch", ...facts.components, "build"].forEach(set);
}

function changed() {
  refillAll();
  remember();
  show();
}

fillOnce();
recall();
changed();
$("choice").addEventListener("change", changed);
$("choice").addEventListener("submit", (event) => event.preventDefault());
$("choice").addEventListener("reset", (event) => {
  event.preventDefault();
  history.replaceState(null, "", "#");
  for (const list of document.querySelectorAll("select")) list.value = "";
  recall();
  changed();
});
