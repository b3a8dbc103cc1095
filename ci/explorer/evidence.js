// What is known of a version on this host besides rules: lists of GPUs, module flavours, bad releases, coverage.

function pages(facts, places) {
  const found = unique((places ?? []).map((place) => facts.sources[place]));
  return [...found.filter((one) => one.startsWith("https://")), ...found.filter((one) => !one.startsWith("https://"))];
}

// solve/gpu_lists.py: the evidence on a GPU and a driver release.
function lookUp(facts, gpu, driver) {
  const ids = gpu.device ? [gpu.device] : gpu.devices ?? [];
  const some = ids.map((device) => lookUpDevice(facts, device, gpu.subsystem, driver)).filter(([kind]) => kind !== "no-list");
  const named = some.find(([kind]) => kind !== "unlisted");
  if (named || !some.length) return named ?? ["no-list", [], []];
  const least = ([, first]) => [...first].sort(compareVersions)[0];
  return some.reduce((best, one) => (compareVersions(least(one), least(best)) < 0 ? one : best));
}

function lookUpDevice(facts, device, subsystem, driver) {
  const { devices, read, stated, boards, dates } = facts.lists;
  const row = devices[device] ?? { open: [], own: [], src: [] };
  const board = subsystem ? boards[`${device} ${subsystem}`] : undefined;
  if (board && compareVersions(driver, board[0]) < 0) return ["unlisted", [board[0]], board[1]];
  const branchOf = (text) => Number(text.split(".")[0]);
  const isAfter = (firsts, branch, last) => {
    const day = dates[last] ?? "";
    return Boolean(day) && firsts.some((text) => branchOf(text) < branch && (dates[text] ?? "") >= day);
  };
  const names = (kind, firsts) => {
    if (!firsts.length) return false;
    const first = Object.fromEntries(firsts.map((text) => [branchOf(text), text]));
    const branch = branchOf(driver), own = read[kind][branch];
    if (own && compareVersions(driver, own[0]) >= 0) {
      if (branch in first) return compareVersions(driver, first[branch]) >= 0;
      return compareVersions(driver, own[1]) > 0 && isAfter(firsts, branch, own[1]);
    }
    const earlier = Object.keys(read[kind]).map(Number).filter((number) => number < branch);
    if (!earlier.length) return false;
    const nearest = Math.max(...earlier);
    return nearest in first || isAfter(firsts, branch, read[kind][nearest][1]);
  };
  if (names("open", row.open)) return ["open-list", row.open, row.src];
  if (names("own", row.own)) return ["own-list", row.own, row.src];
  const product = stated[device];
  if (product && compareVersions(driver, product[0]) >= 0) return ["changelog", [product[0]], product[1]];
  if (row.open.length) return ["unlisted", row.open, row.src];
  return product ? ["unlisted", [product[0]], product[1]] : ["no-list", [], []];
}

function firstRelease(first, driver) {
  const branch = driver.split(".")[0];
  const named = first.find((text) => text.split(".")[0] === branch) ??
    first.find((text) => compareVersions(text, driver) > 0);
  if (named) return `${named} on`;
  return `${first[first.length - 1]} on, and not in branch ${branch} as far as its lists were read`;
}

// solve/listed.py: what the lists leave in doubt, and what they only remark.
function listed(question, candidate) {
  const host = question.host, found = { doubts: [], remarks: [] };
  if (candidate.component !== "driver" || candidate.row.unread) return found;
  if (host.systemOf("driver") !== "linux") {
    for (const gpu of host.gpus.filter((one) => one.launch)) {
      const [first, begin, src] = gpu.launch, day = question.facts.lists.windows[candidate.version] ?? "";
      if (!day || day >= begin) continue;
      found.doubts.push(unknown(`driver==${candidate.version}: it is older than ${first}, and no list of a driver ` +
        "for Windows was read", { sources: pages(question.facts, src) }));
    }
    return found;
  }
  for (const gpu of host.gpus) {
    const driver = candidate.version, name = host.called(gpu);
    const [kind, first, src] = lookUp(question.facts, gpu, driver);
    if (kind === "unlisted" && gpu.decisive) {
      found.doubts.push(unknown(`driver==${driver}: NVIDIA lists ${name} from ${firstRelease(first, driver)}`,
        { sources: pages(question.facts, src) }));
    } else if (kind === "unlisted") {
      const from = firstRelease(first, driver);
      found.remarks.push(`no list that was read names ${name} for driver ${driver}; ` + (gpu.open === "impossible" ?
        `NVIDIA's changelog names it from ${from}, which proves nothing: it omits drivers for data centres` :
        `NVIDIA lists it for the open kernel modules from ${from}, which proves nothing for the proprietary ones`));
    } else if (kind === "no-list" && gpu.decisive && gpu.device) {
      found.remarks.push(`none of NVIDIA's lists of GPUs that were read names ${name} for any driver`);
    }
  }
  return found;
}

function unknown(reason, more = {}) {
  return { reason, rule: "", needs: "", option: "", sources: [], ...more };
}

// solve/flavour.py
function flavourRules(question, driver) {
  const host = question.host;
  return question.facts.flavours.filter((row) => isWithin(driver, row.driver) &&
    !row.asked && (!row.arch || row.arch.includes(host.system.arch)) &&
    ((!row.compute_capability && !row.gpus) || host.gpus.some((gpu) => (gpu.cc || !row.compute_capability) &&
      (!row.compute_capability || isWithin(gpu.cc || "0", row.compute_capability)) &&
      (!row.gpus || row.gpus.some((name) => (host.nameOf(gpu) ?? "").includes(name))))));
}

function flavoursOf(question, driver) {
  const allowed = isWithin(driver, ">=560") ? ["open", "proprietary"] : ["proprietary", "open"];
  const refused = new Set(flavourRules(question, driver).map((row) => row.flavour));
  for (const gpu of question.host.gpus) {
    if (gpu.open === "impossible") refused.add("open");
    if (gpu.open === "required") refused.add("proprietary");
  }
  return allowed.filter((one) => !refused.has(one));
}

// solve/known_bad.py
function badPairs(question, candidate) {
  const host = question.host;
  if (candidate.component !== "driver" || !host.gpus.length || host.isWindows || host.system.environment === "wsl") {
    return [];
  }
  const isAbout = (row, gpu) => (!row.gpus || row.gpus.includes(host.nameOf(gpu))) && (!row.kind || gpu.kind === row.kind) &&
    !row.mig && (!row.compute_capability || Boolean(gpu.cc && isWithin(gpu.cc, row.compute_capability)));
  return question.facts.bad.filter((row) => !row.setting && !row.kernel && isWithin(candidate.version, row.driver) &&
    host.gpus.some((gpu) => isAbout(row, gpu)) && (!row.repo || row.repo.includes(host.system.repo ?? "")) &&
    (!row.flavour || row.flavour === (flavoursOf(question, candidate.version)[0] ?? "")));
}

function badReason(question, row, text) {
  return `driver ${text} is known to go wrong on ${question.host.called(question.host.gpus[0])}: ${row.says}`;
}

// solve/applies.py
function unlistedGpu(question, component, text) {
  const { facts, host } = question;
  const names = (row, gpu) => row.gpus?.includes(host.nameOf(gpu)) ||
    Boolean(gpu.cc && row.compute_capability && isWithin(gpu.cc, row.compute_capability));
  for (const row of facts.applies.unlisted_gpus) {
    const isHere = !row.platforms || row.platforms.includes(host.system.platform);
    const gpu = isHere && row.components.includes(component) && isWithin(text, row.versions) &&
      host.gpus.find((one) => names(row, one));
    if (gpu) return unknown(`${component}==${text}: ${host.called(gpu)}: ${row.text}`,
      { rule: row.id, needs: "gpu", option: "--gpu", sources: pages(facts, row.src) });
  }
  return null;
}

function outside(question, component, text) {
  const { facts, host } = question, { rows, elsewhere, unlisted, platforms } = facts.applies;
  const mine = rows.filter((row) => row.component === component);
  const place = host.system.platform, arch = host.system.arch;
  const here = mine.filter((row) => row.platforms.includes(place));
  const covers = (row) => row.arch.includes(arch) && (!row.versions || isWithin(text, row.versions));
  if (!mine.length || here.some(covers)) {
    const row = unlisted.find((one) => one.components.includes(component) && isWithin(text, one.versions) &&
      one.systems.some((name) => host.system.rows.includes(name)) && (!one.arch || one.arch.includes(arch)));
    if (row) {
      return unknown(`${component}==${text}: ${row.text}`,
        { rule: row.id, needs: "os", option: "--os", sources: pages(facts, row.src) });
    }
    return unlistedGpu(question, component, text) ?? unshown(question, component, text) ??
      withoutCompiler(question, component, text);
  }
  const subject = `${component}==${text}`;
  if (!here.length) {
    const row = elsewhere.find((one) => one.component === component && one.platform === place);
    const why = row ? row.text : `the facts do not cover ${host.title(component)} on ${platforms[place]}`;
    return unknown(`${subject}: ${why}`, { rule: mine[0].id, needs: "environment",
      option: place === "jetson" || place === "container" ? "--environment" : "--os",
      sources: pages(facts, (row ?? mine[0]).src) });
  }
  const known = here.map((row) => `${row.arch.join(", ")}: ${row.words}`).join("; ");
  const why = `no build of ${host.title(component)} ${text} is known for ${platforms[place]} on ${arch}; known for ${known}`;
  return unknown(`${subject}: ${why}`, { rule: here[0].id, needs: "arch", option: "--arch",
    sources: pages(facts, here.flatMap((row) => row.src)) });
}

// solve/packaged.py
function withoutCompiler(question, component, text) {
  const { facts, host } = question, least = host.system.oldest_gcc;
  if (!least || !host.isAssumed("gcc") || !(component in question.asked)) return null;
  if (component === "cuda" && (host.system.own ?? []).includes(text)) return null;
  for (const rule of question.book.applying(component, text).get("gcc") ?? []) {
    if (!rule.compiling || !host.holds(rule, component)) continue;
    let older = Number.parseInt(least, 10) - 1;
    while (older > 3 && !accepts(rule, text, String(older))) older -= 1;
    if (older <= 3 || [...host.values("gcc"), least].some((value) => accepts(rule, text, value))) continue;
    return unknown(`${component}==${text}: nvcc of this CUDA accepts GCC up to ${older}, and the oldest that ` +
      `${host.system.gcc_of} packages is GCC ${least}: take one from an older release, or build it, and name it ` +
      `(--gcc ${older})`, { rule: rule.id, needs: "gcc", option: "--gcc", sources: pages(facts, rule.src) });
  }
  return null;
}

function unshown(question, component, text) {
  const { facts, host } = question;
  if (host.isWindows) return null;
  for (const row of facts.applies.unshown) {
    if (!row.components.includes(component) || (row.versions && !isWithin(text, row.versions))) continue;
    const value = host.values(row.property).find((one) => !isWithin(one, row.shown));
    if (value) {
      return unknown(`${component}==${text}: ${row.text}; this host has ${host.title(row.property)} ${value}`,
        { rule: row.id, needs: row.property, option: OPTIONS[row.property], sources: pages(facts, row.src) });
    }
  }
  return null;
}

// solve/unknown.py
const UNKNOWN_KERNELS = "it is unknown on which kernels its modules build";

function boundsAbove(question, rule) {
  return rule.objects[0] === "kernel" && !rule.equal && question.host.holds(rule, "driver") &&
    Boolean(rule.none || (rule.any ?? []).some((text) => text.includes("<")));
}

function lacksKernels(question, driver) {
  const isAbove = (rule) => boundsAbove(question, rule);
  return question.host.values("kernel").length > 0 && question.facts.rules.driver.some(isAbove) &&
    !(question.book.applying("driver", driver).get("kernel") ?? []).some(isAbove);
}

const MODULES = ["driver", "fabric-manager", "imex"];

function refusedKernel(question, driver) {
  const { book, host } = question;
  if (!host.isAssumed("kernel")) return undefined;
  const isAlone = !question.hasFramework && Object.keys(question.asked).every((name) => MODULES.includes(name));
  return (book.applying("driver", driver).get("kernel") ?? []).find((rule) => {
    const takes = (kernel) => accepts(rule, driver, kernel);
    return !rule.advice && (isAlone || !boundsAbove(question, rule)) && host.holds(rule, "driver") &&
      !host.values("kernel").some(takes) && !(host.system.offers ?? []).some(takes);
  });
}

function noKernel(question, driver) {
  const rule = refusedKernel(question, driver);
  if (!rule) return [];
  const why = `it is unknown whether ${question.host.system.default} has such a kernel: ${rule.says ?? ""}`;
  return [unknown(`driver==${driver}: ${why}`,
    { rule: rule.id, needs: "kernel", option: "--kernel", sources: pages(question.facts, rule.src) })];
}

function unknownKernels(question, candidate) {
  if (!candidate) return [];
  if (question.host.isAssumed("kernel")) return noKernel(question, candidate.version);
  if (!lacksKernels(question, candidate.version)) return [];
  return [unknown(`driver==${candidate.version}: ${UNKNOWN_KERNELS}, so nothing can be said of Linux ` +
    question.host.values("kernel")[0], { needs: "kernel", option: "--kernel" })];
}

function unknownPairs(question, picks) {
  return question.facts.covered.filter(([subject, other]) => picks[subject] && picks[other] &&
    !picks[subject].row.unread && !picks[other].row.unread &&
    !question.book.covers(subject, picks[subject].version, other, question.host))
    .map(([subject, other]) => unknown(`${subject}==${picks[subject].version} with ${other}==${picks[other].version}: ` +
      "compatibility unknown: no fact covers this pair"));
}

// solve/unjudged.py: every unjudged rule about a version that might refuse it.
function lackingRules(question, candidate, picks) {
  const { host, book } = question, found = [];
  for (const [other, rules] of book.applying(candidate.component, candidate.version)) {
    const isComponent = book.components.has(other);
    const values = isComponent ? (picks[other] ? [picks[other].version] : []) : host.values(other);
    if (!isComponent) {
      const hasUnknownGpu = other === "compute-capability" && host.gpus.some((gpu) => !gpu.cc);
      if (!values.length || hasUnknownGpu) {
        for (const rule of rules) if (host.lacking(rule, candidate.component) !== null) found.push({ rule, property: other });
        continue;
      }
    }
    const least = isComponent ? "" : host.least(other);
    for (const rule of rules) {
      const missing = host.lacking(rule, candidate.component);
      if (least && missing === "" && !accepts(rule, candidate.version, least)) found.push({ rule, property: other });
      if (missing && !values.every((value) => accepts(rule, candidate.version, value))) found.push({ rule, property: missing });
    }
  }
  return found;
}

function decides(question, component, { rule, property }) {
  if (rule.advice && !(rule.compiling && component in question.asked)) return false;
  return SYSTEM_FIXED.has(property) ||
    ((property === "compute-capability" || property === "gpu") && question.host.gpus.length > 0);
}

function unknownRules(question, candidate, picks) {
  return lackingRules(question, candidate, picks).filter((one) => decides(question, candidate.component, one))
    .map(({ rule, property }) => unknown(
      `${candidate.component}==${candidate.version}: ${rule.text}; the ${question.host.title(property)} of this host is ` +
      `unknown (${OPTIONS[property]} gives it` +
      `${property === "glibc" && question.host.system.least ? ", or --os with the service pack" : ""})`,
      { rule: rule.id, needs: property, option: OPTIONS[property], sources: pages(question.facts, rule.src) }));
}

function unreadText(question, candidate) {
  const system = question.host.systemOf(candidate.component);
  return candidate.row.unread[`${system} ${question.host.system.arch}`] ?? "";
}

// solve/doubts.py: why it is unknown whether this version runs here.
function doubtsOf(question, candidate) {
  const first = candidate.row.unread ? unknown(unreadText(question, candidate))
    : outside(question, candidate.component, candidate.version);
  const isDriver = candidate.component === "driver";
  return [...(first ? [first] : []), ...listed(question, candidate).doubts,
    ...(isDriver ? unknownKernels(question, candidate) : []), ...unknownRules(question, candidate, {})];
}
