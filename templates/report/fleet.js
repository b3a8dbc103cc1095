"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const WORDS = { pass: "passed", fail: "failed", error: "not proven", skip: "skipped" };
  const SIGNS = { pass: "✓", fail: "✗", error: "?", skip: "–" };
  const ORDER = { fail: 0, error: 1, pass: 2 };
  const STEP = 100;
  const at = (id) => document.getElementById(id);

  const make = (name, text, type) => {
    const one = document.createElement(name);
    if (text !== undefined) one.textContent = text;
    if (type) one.className = type;
    return one;
  };

  // What a search looks in, made once a class and not once a host.
  const texts = data.kinds.map((kind) => {
    const parts = kind.slice(1, 7);
    for (const cell of kind[7]) {
      if (cell.length) parts.push(cell[1], ...cell[3].flatMap((place) => data.checks[place]));
    }
    return parts.join("\n").toLowerCase();
  });
  // The worst first, then by name as the data is.
  const hosts = data.hosts
    .map((host, place) => [host, place])
    .sort(([a, x], [b, y]) => ORDER[data.kinds[a[1]][0]] - ORDER[data.kinds[b[1]][0]] || x - y)
    .map(([host]) => host);

  let found = hosts;
  let shown = 0;

  const fits = (host) => {
    const kind = data.kinds[host[1]];
    const status = at("status").value;
    const component = at("component").value;
    let is = kind[0];
    if (component !== "") {
      const cell = kind[7][Number(component)];
      // A host without any result has no cell, and is no host that passed.
      if (!cell.length && kind[0] !== "error") return false;
      is = cell.length ? cell[0] : kind[0];
    }
    if (status && !(status === "bad" ? is === "fail" || is === "error" : is === status)) return false;
    const words = at("words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const name = host[0].toLowerCase();
    return words.every((word) => name.includes(word) || texts[host[1]].includes(word));
  };

  const check = ([id, status, reason, fix]) => {
    const part = document.createDocumentFragment();
    const line = make("p");
    line.append(make("b", `${WORDS[status]} `, status), `${id}: ${reason}`);
    part.append(line);
    if (fix) part.append(make("p", fix, "fix"));
    return part;
  };

  const open = (host, place) => {
    const kind = data.kinds[host[1]];
    const text = at("detail-text");
    text.replaceChildren();
    at("detail-title").textContent = place === undefined ? host[0] : `${host[0]}: ${data.components[place]}`;
    text.append(make("p", [kind[1], kind[2], kind[3], kind[4] && `level ${kind[4]}`].filter(Boolean).join(" · ")));
    if (kind[6]) text.append(make("p", kind[6], "error"));
    for (const [number, cell] of kind[7].entries()) {
      if (!cell.length || (place !== undefined && place !== number)) continue;
      text.append(make("p", `${data.components[number]} ${cell[1]}: ${cell[2]} checks passed`));
      for (const one of cell[3]) text.append(check(data.checks[one]));
    }
    at("detail").showModal();
  };

  const button = (text, type, act) => {
    const one = make("button", text, type);
    one.type = "button";
    one.addEventListener("click", act);
    return one;
  };

  const row = (host) => {
    const kind = data.kinds[host[1]];
    const line = make("tr");
    const name = make("th");
    name.scope = "row";
    name.append(button(host[0], "", () => open(host)));
    const status = make("td");
    status.append(button(`${SIGNS[kind[0]]} ${WORDS[kind[0]]}`, kind[0], () => open(host)));
    line.append(name, status);
    for (const [place, cell] of kind[7].entries()) {
      const one = make("td");
      if (cell.length) {
        const made = button(`${SIGNS[cell[0]]} ${cell[1] || WORDS[cell[0]]}`, cell[0], () => open(host, place));
        made.setAttribute("aria-label", `${data.components[place]} ${cell[1]} ${WORDS[cell[0]]} on ${host[0]}`);
        one.append(made);
      }
      line.append(one);
    }
    line.append(make("td", kind[1]), make("td", kind[3]));
    return line;
  };

  const more = () => {
    const part = document.createDocumentFragment();
    for (const host of found.slice(shown, shown + STEP)) part.append(row(host));
    at("rows").append(part);
    shown = Math.min(shown + STEP, found.length);
    at("more").hidden = shown === found.length;
    at("count").textContent = `${found.length} of ${hosts.length} hosts, ${shown} shown`;
  };

  const filter = () => {
    found = hosts.filter(fits);
    shown = 0;
    at("rows").replaceChildren();
    more();
  };

  const find = (text) => {
    at("filters").reset();
    at("words").value = text;
    filter();
    at("hosts-title").scrollIntoView();
    at("words").focus();
  };

  for (const [id, status, reason, fix, count] of data.causes) {
    const item = make("li");
    item.append(make("b", `${WORDS[status]} `, status), `${id === data.self ? "" : `${id}: `}${reason} `);
    const hostsOf = count === 1 ? "1 host" : `${count} hosts`;
    const label = button(hostsOf, "", () => find(id === data.self ? reason : `${id} ${reason}`));
    label.setAttribute("aria-label", `show ${hostsOf}: ${id}`);
    item.append(label);
    if (fix) item.append(make("p", fix, "fix"));
    at("causes").append(item);
  }
  at("no-causes").hidden = data.causes.length > 0;
  for (const title of ["host", "status", ...data.components, "system", "GPUs"]) {
    const one = make("th", title);
    one.scope = "col";
    at("head").append(one);
  }
  for (const [place, name] of data.components.entries()) at("component").append(new Option(name, String(place)));
  for (const id of ["words", "status", "component"]) at(id).addEventListener("input", filter);
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("filters").addEventListener("reset", () => setTimeout(filter));
  at("more").addEventListener("click", more);
  new IntersectionObserver((seen) => {
    if (seen.some((one) => one.isIntersecting) && shown < found.length) more();
  }).observe(at("more"));
  filter();
})();
