// The verdict on a choice: solve/check.py, solve/findings.py, solve/sentences.py and solve/advice.py.

function hostHas(question, name) {
  const { host } = question, values = host.values(name);
  if (host.isAssumed(name)) return `The default of ${host.system.default} is ${host.title(name)} ${values.join(", ")}`;
  if (name !== "compute-capability") return `This host has ${host.title(name)} ${values.join(", ")}`;
  const named = values.map((value) => {
    const gpus = unique(host.gpus.filter((gpu) => gpu.cc === value).map((gpu) => host.called(gpu)));
    return `${gpus.join(", ")} (compute capability ${value})`;
  });
  return `This host has ${named.join(" and ")}`;
}

function hostName(question, name) {
  const { host } = question;
  if (name === "compute-capability") return `gpu: ${unique(host.gpus.map((gpu) => host.called(gpu))).join(", ")}`;
  return `os: ${host.title(name)} ${host.values(name).join(", ")}`;
}

function lastBranch(question, component, name) {
  if (component !== "driver" || name !== "compute-capability") return "";
  const gpu = question.host.gpus.find((one) => one.last);
  return gpu ? `The last driver branch for ${question.host.nameOf(gpu) || "this GPU"} is ${gpu.last}` : "";
}

function spelled(question, component) {
  return `${component}${question.asked[component]}`;
}

// The components that take part: nothing is installed on a described host, so those that are asked about.
function directFindings(question, search) {
  const { facts, host } = question, found = [];
  const given = Object.keys(question.asked);
  if (host.system.foreign) {
    for (const name of given.filter((one) => !(host.system.builds_from_source ?? []).includes(one))) {
      found.push({ kind: "foreign-system", between: [spelled(question, name), `os: ${host.system.foreign_name}`],
        reason: host.system.foreign, sources: pages(facts, host.system.src) });
    }
  }
  for (const name of given) {
    for (const refused of commonRefusals(question, search.domain(name))) {
      const last = lastBranch(question, name, refused.property);
      found.push({ kind: "refused-by-host", between: [spelled(question, name), hostName(question, refused.property)],
        reason: `${refused.rule.text}. ${hostHas(question, refused.property)}.${last ? ` ${last}.` : ""}`,
        sources: pages(facts, refused.rule.src) });
    }
  }
  found.push(...flavourFindings(question, given, search));
  given.forEach((a, place) => given.slice(place + 1).forEach((b) => {
    const refused = refusedPair(search, a, b);
    if (!refused) return;
    found.push({ kind: "refused-pair", between: [spelled(question, a), spelled(question, b)],
      reason: `${refused.rule.text}; this is ${host.title(refused.second)} ${refused.value}.` +
        forwardCompatibility(question, a, b), sources: pages(facts, refused.rule.src) });
  }));
  return found;
}

function commonRefusals(question, candidates) {
  const refusals = candidates.map((candidate) => question.hostRefusals(candidate));
  if (!refusals.length || !refusals.every((found) => found.length)) return [];
  const inAll = refusals[0].filter((one) => refusals.every((found) => found.some((other) => other.constraint === one.constraint)));
  return inAll.length ? inAll : [refusals[0][0]];
}

function flavourFindings(question, given, search) {
  const { facts, host } = question;
  const candidates = given.includes("driver") && !host.isWindows ? search.domain("driver") : [];
  if (!candidates.length || !host.gpus.length || candidates.some((one) => flavoursOf(question, one.version).length)) return [];
  const verdicts = { required: "is supported by open kernel modules only", impossible: "is not supported by open kernel modules" };
  const sentences = unique(host.gpus.filter((gpu) => verdicts[gpu.open]).map((gpu) => `${host.called(gpu)} ${verdicts[gpu.open]}`));
  const rules = flavourRules(question, candidates[0].version);
  const reasons = [...sentences, ...rules.map((row) => (row.text ?? "").replace(/\.+$/, ""))];
  return [{ kind: "no-common-flavour", between: [spelled(question, "driver"), hostName(question, "compute-capability")],
    reason: `${reasons.join(". ")}.`, sources: pages(facts, rules.flatMap((row) => row.src ?? [])) }];
}

function refusedPair(search, a, b) {
  let first = null;
  for (const one of search.domain(a)) {
    for (const other of search.domain(b)) {
      const refused = search.pairRefusal(one, other);
      if (!refused) return null;
      first = first ?? refused;
    }
  }
  return first;
}

// solve/forward_compat.py
function forwardCompatibility(question, a, b) {
  const { facts, host } = question;
  if ([a, b].sort().join() !== "cuda,driver" || host.isWindows) return "";
  const kinds = host.gpus.map((gpu) => gpu.kind);
  if (!kinds.length) return "";
  if (!kinds.every((kind) => kind === "datacenter")) {
    return " Forward compatibility (cuda-compat) does not exist for this class of GPU.";
  }
  const packageFor = (cuda, driver) => facts.bridges.find((row) => isWithin(cuda, `==${row[0]}.*`) && isWithin(driver, `==${row[1]}.*`));
  const cudas = question.candidates("cuda"), drivers = question.candidates("driver");
  const answers = uniqueByContent(cudas.flatMap((cuda) => drivers.map((driver) =>
    packageFor(cuda.version, driver.version)?.slice(2) ?? null)));
  if (answers.length === 1 && answers[0]) {
    const [name, result] = answers[0];
    return result === "compatible"
      ? ` Forward compatibility bridges this on data-centre GPUs: ${name} installed with the toolkit, with its folder on LD_LIBRARY_PATH.`
      : ` Forward compatibility does not bridge this either: ${name} does not work on this driver branch.`;
  }
  const mine = facts.bridges.filter((row) => isWithin(cudas[0].version, `==${row[0]}.*`) && row[3] === "compatible");
  if (mine.length) {
    return ` Forward compatibility, ${mine[0][2]} on data-centre GPUs, is stated for driver branch ${joinAnd(mine.map((row) => row[1]))} only.`;
  }
  return " On data-centre GPUs the cuda-compat package of that CUDA release may bridge this (forward compatibility);" +
    " on which driver branches it works is unknown.";
}

function rulesBetween(question, subject, other) {
  const found = new Map();
  for (const candidate of question.candidates(subject)) {
    for (const rule of question.book.applying(subject, candidate.version).get(other) ?? []) {
      if (!rule.advice && question.host.holds(rule, subject) && !found.has(rule.id)) found.set(rule.id, rule);
    }
  }
  const rules = [...found.values()];
  const values = question.book.components.has(other) ? question.candidates(other).map((one) => one.version) : question.host.values(other);
  const refusing = rules.filter((rule) => values.length && !rule.equal && !values.some((value) => accepts(rule, "0", value)));
  return refusing.length ? refusing : rules;
}

function noCombination(question, constraints) {
  const { facts, host } = question, rank = (name) => {
    const place = ORDER.indexOf(name);
    return place < 0 ? ORDER.length : place;
  };
  const parsed = constraints.map((text) => text.split(" "));
  const reading = ([kind, a, b]) => kind === "asked" ? [0, rank(a), 0, ""] : kind === "host" ? [1, rank(a), rank(b), b] : [4, rank(a), rank(b), b];
  const byKind = ([kind, a, b]) => kind === "asked" ? [0, a, ""] : kind === "host" ? [2, a, b] : [4, a, b];
  const sentences = [...parsed].sort((a, b) => compareLists(reading(a), reading(b))).flatMap(([kind, a, b]) => {
    const asSentence = (rule) => ({ text: rule.text, src: pages(facts, rule.src) });
    if (kind === "asked") return [{ text: `You asked for ${host.title(a)} ${exactVersion(question.asked[a])}`, src: [] }];
    if (kind === "host") {
      const last = lastBranch(question, a, b);
      return [...rulesBetween(question, a, b).map(asSentence), { text: hostHas(question, b), src: [] },
        ...(last ? [{ text: last, src: [] }] : [])];
    }
    const rules = rulesBetween(question, a, b);
    if (rules.length <= 3) return rules.map(asSentence);
    const older = `Older releases of ${host.title(a)} have limits of their own for ${host.title(b)}`;
    return [asSentence(rules[0]), { text: older, src: [] }];
  });
  const named = [], members = new Set();
  for (const [kind, a, b] of [...parsed].sort((one, two) => compareLists(byKind(one), byKind(two)))) {
    if (kind === "asked") named.push(spelled(question, a));
    else if (kind === "host") named.push(hostName(question, b));
    else { members.add(a); members.add(b); }
  }
  named.push(...Object.keys(question.asked).filter((name) => members.has(name)).map((name) => spelled(question, name)));
  return { kind: "no-combination", between: unique(named), reason: `${sentences.map((one) => one.text).join(". ")}.`,
    sources: unique(sentences.flatMap((one) => one.src)) };
}

const ORDER = ["driver", "fabric-manager", "imex", "cuda", "cuda-compat", "cudnn", "nccl", "tensorrt", "tensorrt-rtx",
  "nv-codec-headers", "ffmpeg", "container-toolkit", "dcgm", "gdrcopy", "gds", "triton"];

function compareLists(a, b) {
  for (let i = 0; i < a.length; i++) {
    if (a[i] < b[i]) return -1;
    if (a[i] > b[i]) return 1;
  }
  return 0;
}

function adviceOn(question, picks) {
  const { book, host } = question, found = [];
  for (const [name, candidate] of Object.entries(picks)) {
    for (const { rule } of book.hostAdvice(question, name, candidate.version)) {
      if (name === "driver" && rule === refusedKernel(question, candidate.version)) continue;
      const has = hostHas(question, rule.objects[0]);
      found.push(`${rule.text}; ${has[0].toLowerCase()}${has.slice(1)}`);
    }
    for (const [other, second] of Object.entries(picks)) {
      for (const rule of book.oneWay(name, candidate.version, other, second.version, host, true)) {
        found.push(`${rule.text}; this is ${second.version}`);
      }
    }
    found.push(...listed(question, candidate).remarks);
  }
  if (picks.driver) {
    found.push(...badPairs(question, picks.driver).filter((row) => row.effect !== "fails" && !row.doubt)
      .map((row) => badReason(question, row, picks.driver.version) + (row.helps ? `; ${row.helps}` : "")));
  }
  if (picks.ffmpeg) {
    found.push(...host.gpus.filter((gpu) => gpu.nvenc === 0)
      .map((gpu) => `${host.called(gpu)} has no NVENC: FFmpeg can decode on it (NVDEC) but not encode`));
  }
  return unique(found);
}

function notJudged(question, judged) {
  const found = new Map(), { host } = question;
  for (const candidate of Object.values(judged)) {
    for (const one of lackingRules(question, candidate, judged)) {
      if (decides(question, candidate.component, one)) continue;
      found.set(`${one.rule.id} ${one.property}`, { rule: one.rule.id, property: one.property, option: OPTIONS[one.property],
        reason: `the ${host.title(one.property)} of this host is unknown` });
    }
  }
  if (judged.driver && host.isAssumed("kernel") && lacksKernels(question, judged.driver.version)) {
    found.set(" kernel", { rule: "", property: "kernel", option: "--kernel",
      reason: `driver==${judged.driver.version}: ${UNKNOWN_KERNELS}` });
  }
  return [...found.values()];
}

function assumedOf(question, judged) {
  const { host, book } = question, names = new Set();
  for (const candidate of Object.values(judged)) {
    for (const [name, rules] of book.applying(candidate.component, candidate.version)) {
      if (!book.components.has(name) && host.isAssumed(name) &&
          rules.some((rule) => host.lacking(rule, candidate.component) !== null)) names.add(name);
    }
  }
  return [...names].map((name) => ({ property: name, value: host.values(name).join(", "), system: host.system.default,
    option: OPTIONS[name] }));
}

function exposures(question, judged) {
  const { facts, host } = question;
  if (!judged.driver) return [];
  const kinds = ["consumer", "professional", "datacenter"];
  const kind = host.gpus.length && kinds.includes(host.gpus[0].kind) ? host.gpus[0].kind : "";
  const found = facts.security.of[`${host.systemOf("driver")} ${kind}`][judged.driver.version];
  if (!found) return [];
  const [text, ...places] = found;
  return [{ component: "driver", version: judged.driver.version, sources: places.map((place) => facts.sources[place]),
    reason: `Driver ${judged.driver.version} ${facts.security.texts[text]}` }];
}

function unknownVersions(question) {
  return Object.keys(question.asked).flatMap((name) => {
    const candidates = question.candidates(name);
    if (!candidates.length || !candidates.every((one) => one.row.unread)) return [];
    return [unknown(unreadText(question, candidates[0]))];
  });
}

function hintsFor(question, search) {
  const found = [];
  for (const name of Object.keys(question.asked)) {
    const solution = without(question, search, name);
    const pick = solution?.[name];
    if (pick && isGood(question, solution, { [name]: pick })) found.push(relaxed(question, name, solution));
  }
  if (!found.length) {
    const free = new Set(Object.keys(question.asked).map((name) => `asked ${name}`));
    const solution = new Search(question, free).run() ?? {};
    const picks = Object.fromEntries(Object.entries(solution).filter(([name, pick]) => pick && name in question.asked));
    if (Object.keys(picks).length && isGood(question, solution, picks)) {
      found.push(`compatible here: ${Object.entries(picks).map(([name, pick]) => `${name}==${pick.version}`).join(", ")}`);
    }
  }
  return found.slice(0, 3);
}

// A stack with another version of a component: of the same line if one is known to run, else of the nearest line.
function without(question, search, component) {
  const candidates = question.candidates(component);
  const asked = version(candidates.length ? candidates[0].version : exactVersion(question.asked[component])).numbers[0];
  const known = new Set(question.releasedHere(component).map((row) => version(row.v).numbers[0]));
  known.delete(asked);
  const others = component === "driver" ? [] : [...known].sort((a, b) => Math.abs(a - asked) - Math.abs(b - asked) || b - a);
  const rest = Object.fromEntries(Object.entries(question.asked).filter(([name]) => name !== component));
  for (const line of [asked, ...others]) {
    const found = new Search(question.varied({ ...rest, [component]: `==${line}.*` })).run();
    if (found && !(found[component] && doubtsOf(question, found[component]).length)) return found;
  }
  return new Search(question, new Set([`asked ${component}`])).run();
}

// That nothing refuses the changed versions, and that nothing of the request is in doubt with them.
function isGood(question, solution, changed) {
  const isDoubted = (name) => solution[name] && doubtsOf(question, solution[name]).length;
  return !Object.keys(question.asked).some(isDoubted) && fits(question, changed);
}

function fits(question, picks) {
  const asked = Object.fromEntries(Object.entries(question.asked)
    .map(([name, text]) => [name, picks[name] ? `==${picks[name].version}` : text]));
  const changed = question.varied(asked);
  return !directFindings(changed, new Search(changed)).length;
}

function relaxed(question, component, solution) {
  const others = Object.entries(solution).filter(([name, pick]) => pick && name !== component && name in question.asked)
    .map(([name, pick]) => `${name} ${pick.version}`).join(", ");
  return `try ${component}==${solution[component].version}, which is compatible with ${others || "this host"}`;
}

// What is unknown about a driver that nobody gave, and without which the given versions do not run.
function companionsOf(question, solution, picks) {
  const { windows, environment } = question.host.system;
  const isForeign = windows || ["wsl", "container", "jetson", "chroot"].includes(environment);
  return solution.driver && !picks.driver && !isForeign ? doubtsOf(question, solution.driver) : [];
}

// The answer of `gpustack check` for components in exact versions, and one framework for Python, on a described host.
// Those hints that a search has to find take most of the time: a second call may ask for them.
function check(facts, book, { system, gpu, python, versions, framework }, { hints = true } = {}) {
  const host = new Host(facts, system, gpu, python);
  const asked = Object.fromEntries(Object.entries(versions).map(([name, text]) => [name, `==${text}`]));
  const question = new Question(book, host, asked), search = new Search(question);
  question.hasFramework = Boolean(framework);
  const found = directFindings(question, search);
  const solution = found.length ? null : search.run();
  const missing = unknownVersions(question);
  if (!found.length && !solution && !missing.length) found.push(noCombination(question, smallestCause(search)));
  const picks = Object.fromEntries(Object.entries(solution ?? {}).filter(([name, pick]) => pick && name in asked));
  const judged = Object.keys(picks).length ? picks : Object.fromEntries(Object.keys(asked)
    .map((name) => [name, question.candidates(name)[0]]).filter(([, candidate]) => candidate));
  const more = framework ? frameworkFindings(question, framework) : noFindings();
  const conflicts = [...found, ...more.conflicts];
  if (judged.driver) {
    conflicts.push(...badPairs(question, judged.driver).filter((row) => row.effect === "fails").map((row) => ({
      kind: "known-bad", between: [`driver==${judged.driver.version}`, `gpu: ${host.called(host.gpus[0])}`],
      reason: `${badReason(question, row, judged.driver.version)}${row.helps ? `; ${row.helps}` : ""}.`,
      sources: pages(facts, row.src) })));
  }
  const unknowns = uniqueByContent([
    ...missing,
    ...Object.keys(asked).filter((name) => judged[name] && !judged[name].row.unread)
      .map((name) => outside(question, name, judged[name].version)).filter(Boolean),
    ...unknownPairs(question, picks),
    ...Object.values(picks).flatMap((candidate) => listed(question, candidate).doubts),
    ...unknownKernels(question, judged.driver),
    ...(judged.driver ? badPairs(question, judged.driver).filter((row) => row.doubt).map((row) => unknown(
      `driver==${judged.driver.version}: ${badReason(question, row, judged.driver.version)}; ${row.helps}`,
      { sources: pages(facts, row.src) })) : []),
    ...Object.values(judged).flatMap((candidate) => unknownRules(question, candidate, judged)),
  ]).concat(companionsOf(question, solution ?? {}, picks), more.unknown);
  return {
    verdict: conflicts.length ? "incompatible" : unknowns.length ? "unknown" : "compatible",
    conflicts,
    warnings: [...adviceOn(question, picks), ...more.warnings],
    unknown: unknowns,
    not_judged: notJudged(question, judged),
    assumed: assumedOf(question, judged),
    security: exposures(question, judged),
    hints: [...(hints && found.length ? hintsFor(question, search) : []), ...more.hints],
  };
}
