// Frameworks for Python: solve/frameworks. A build is a row of facts.frameworks, with its component added.

const BINDING = ["torch", "jaxlib", "jax-cuda12-pjrt", "jax-cuda13-pjrt", "sgl-kernel", "sglang-kernel"];
const PLUGINS = ["jax-cuda13-plugin", "jax-cuda12-plugin"];
const PYTHONS = Array.from({ length: 12 }, (_, at) => `3.${at + 8}`);
const LIBRARIES = { cuda: "cuda-runtime", cudnn: "cudnn", nccl: "nccl" };
const PLATFORMS = {
  "linux-x86_64": "Linux on x86_64", "linux-aarch64": "Linux on aarch64",
  "windows-x86_64": "Windows on x86_64", "windows-aarch64": "Windows on aarch64",
};

function noFindings() {
  return { conflicts: [], unknown: [], warnings: [], hints: [] };
}

function merged(...parts) {
  const found = noFindings();
  for (const part of parts) for (const key of Object.keys(found)) found[key].push(...(part[key] ?? []));
  return found;
}

function numberOf(build) {
  return build.local ? `${build.v}+${build.local}` : build.v;
}

function namedBuild(build) {
  return `${build.component}==${numberOf(build)}`;
}


class Frameworks {
  constructor(question, asked) {
    this.question = question;
    this.facts = question.facts;
    this.host = question.host;
    this.asked = asked; // name -> range
    this.platform = `${this.host.isWindows ? "windows" : "linux"}-${this.host.system.arch}`;
    this.judged = new Map();
    this.ofName = new Map();
  }

  everywhere(name) {
    if (!this.ofName.has(name)) {
      this.ofName.set(name, (this.facts.frameworks[name] ?? []).map((row) => ({ ...row, component: name })));
    }
    return this.ofName.get(name);
  }

  builds(name) {
    return this.everywhere(name).filter((build) => build.p === this.platform || build.p === "any");
  }

  candidates(name, wanted) {
    const text = wanted ?? this.asked[name] ?? "";
    const meant = this.builds(name).filter((build) => means(text, build));
    const exact = text.startsWith("==") ? meant.filter((build) => build.v === text.slice(2).split("+")[0]) : [];
    const found = exact.length ? exact : meant;
    const kept = found.filter((build) => build.status !== "yanked" || text.startsWith("=="));
    return kept.length ? kept : found;
  }

  findings() {
    const found = merged(...Object.keys(this.asked).map((name) => this.existence(name)));
    if (found.conflicts.length || found.unknown.length) return found;
    const chosen = this.extended({}, Object.keys(this.asked)).next().value;
    if (!chosen) return this.refusals();
    return merged(...Object.values(chosen).map((build) => this.judge(build)), this.remarks(chosen));
  }

  existence(name) {
    const wanted = this.asked[name];
    if (this.candidates(name).length) return noFindings();
    const everywhere = this.everywhere(name).filter((build) => means(wanted, build));
    const names = unique(everywhere.map((build) => PLATFORMS[build.p] ?? build.p)).sort();
    const here = PLATFORMS[this.platform] ?? this.platform;
    if (wanted.includes("+") && this.platform === "linux-aarch64") {
      return merged({ unknown: [unknown(`${name}${wanted}: whether its index has a wheel for Linux on aarch64 is unknown`)] });
    }
    return merged({ conflicts: [{ kind: "framework", between: [`${name}${wanted}`, `platform: ${here}`],
      reason: everywhere[0].only ? `${name}${wanted} runs on ${names.join(", ")} only: ${everywhere[0].only}.`
        : `No wheel of ${name}${wanted} is for ${here}; there are wheels for ${names.join(", ")}.`,
      sources: pages(this.facts, [...everywhere[0].src, ...(everywhere[0].only_src ?? [])]) }] });
  }

  *extended(chosen, names) {
    if (!names.length) {
      yield chosen;
      return;
    }
    const [name, ...rest] = names, later = [];
    const found = name in this.asked ? this.candidates(name) : this.required(name, chosen);
    for (const build of found.filter((one) => !this.broken(one, chosen))) {
      const judged = this.judge(build);
      if (judged.conflicts.length) continue;
      if (judged.unknown.length) later.push(build);
      else yield* this.with(build, chosen, rest);
    }
    for (const build of later) yield* this.with(build, chosen, rest);
  }

  *with(build, chosen, rest) {
    const more = Object.keys(build.requires ?? {}).filter((name) => BINDING.includes(name) && !(name in chosen) && !rest.includes(name));
    yield* this.extended({ ...chosen, [build.component]: build }, [...rest, ...more]);
  }

  required(name, chosen) {
    const requiring = Object.values(chosen).filter((build) => name in (build.requires ?? {}));
    const named = requiring.map((one) => one.requires[name].split("+")[1]);
    const local = [...named, ...requiring.map((one) => one.local)].find(Boolean) ?? "";
    const found = this.builds(name).filter((build) => (build.local ?? "") === local &&
      requiring.every((one) => keeps(build, one.requires[name])));
    const ranges = name === "torch" ? Object.values(chosen).map((one) => one.torch).filter(Boolean) : [];
    const mine = found.filter((build) => ranges.every((text) => isWithin(build.v, text)));
    return mine.length ? mine : found;
  }

  broken(build, chosen) {
    for (const other of Object.values(chosen)) {
      for (const [one, two] of [[build, other], [other, build]]) {
        const wanted = { ...one.optional, ...one.requires }[two.component];
        if (wanted && !keeps(two, wanted)) {
          return this.pair(one, two, `${namedBuild(one)} requires ${two.component}${wanted}`);
        }
        const says = (one.not_newer ?? {})[two.component];
        if (says && compareVersions(one.v, two.v) > 0) {
          return this.pair(one, two, `${namedBuild(one)} is newer than ${namedBuild(two)}: ${says}`);
        }
        const isPartner = one.partner && two.component === "torch" && two.code === "cuda" && two.cuda;
        if (isPartner && !isWithin(two.cuda, one.partner.cuda)) {
          return this.pair(one, two, `${namedBuild(one)} has no library for CUDA ${two.cuda}, which ${namedBuild(two)} ` +
            `is built for${one.partner.says ?? ""}`);
        }
      }
      const share = build.component in (other.requires ?? {}) || other.component in (build.requires ?? {});
      const codes = [build.code, other.code], names = [build.component, other.component];
      if (codes.includes("cuda") && codes.includes("cpu") && names.includes("torch") && (build.cuda || other.cuda) && share) {
        const [cpu, gpu] = build.code === "cpu" ? [build, other] : [other, build];
        return this.pair(gpu, cpu, `${namedBuild(gpu)} is built for CUDA, ${namedBuild(cpu)} without: one does not load`);
      }
      if (build.cuda && other.cuda && share && build.cuda.split(".")[0] !== other.cuda.split(".")[0]) {
        return this.pair(build, other, `${namedBuild(build)} is built for CUDA ${build.cuda}, ${namedBuild(other)} for CUDA ` +
          `${other.cuda}: each loads the libraries of its own major release`);
      }
    }
    return null;
  }

  pair(one, two, reason) {
    return { kind: "framework", between: [namedBuild(one), namedBuild(two)], reason: `${reason}.`,
      sources: pages(this.facts, [...(one.src ?? []), ...(two.src ?? [])]) };
  }

  refusals() {
    let found = noFindings();
    for (const name of Object.keys(this.asked)) {
      const builds = this.candidates(name), judged = builds.map((build) => this.judge(build));
      if (judged.length && judged.every((one) => one.conflicts.length)) {
        found = merged(found, { conflicts: judged[0].conflicts, hints: this.hints(builds[0]) });
      }
    }
    return found.conflicts.length ? found : this.requiredRefusals();
  }

  requiredRefusals() {
    const chosen = {};
    for (const name of Object.keys(this.asked)) {
      const build = this.candidates(name).find((one) => !this.judge(one).conflicts.length);
      if (build) chosen[name] = build;
    }
    for (const build of Object.values(chosen)) {
      for (const [name, wanted] of Object.entries(build.requires ?? {})) {
        const one = BINDING.includes(name) ? this.required(name, { [build.component]: build })[0] : undefined;
        if (!one) continue;
        const [refused] = this.judge(one).conflicts;
        if (refused) {
          return merged({ conflicts: [{ kind: "framework", between: [namedBuild(build), ...refused.between.slice(1)],
            reason: `${namedBuild(build)} requires ${name}${wanted}. ${refused.reason}`, sources: refused.sources }],
            hints: this.otherIndex(build, name, wanted) ?? this.hints(build) });
        }
        const broken = this.broken(one, chosen);
        if (broken) return merged({ conflicts: [broken] });
      }
    }
    const names = Object.entries(this.asked).map(([name, text]) => `${name}${text}`).join(", ");
    return merged({ conflicts: [{ kind: "framework", between: Object.keys(this.asked),
      reason: `No set of builds of ${names} that the facts know keeps all pins and runs here.`, sources: [] }] });
  }

  // The build of a required framework in an index of its own that runs here.
  otherIndex(build, name, wanted) {
    if (build.code === "cuda" && !build.cuda && wanted.startsWith("==")) return undefined; // for which CUDA is unknown
    const one = this.builds(name).find((other) => other.local && isWithin(other.v, wanted) &&
      !this.judge(other).conflicts.length && !this.broken(other, { [build.component]: build }));
    return one && [`compatible with ${namedBuild(build)}: ${namedBuild(one)} (${indexOption(one)})`];
  }

  hints(refused) {
    const builds = this.builds(refused.component).filter((build) => build !== refused);
    for (const build of [...builds.filter((one) => one.v === refused.v), ...builds]) {
      const judged = this.judge(build);
      if (!judged.conflicts.length && !judged.unknown.length && build.status !== "yanked" &&
          !this.with(build, {}, []).next().done) {
        return [`compatible here: ${namedBuild(build)}${build.index ? `, from ${indexOption(build)}` : ""}`];
      }
    }
    return this.oneObstacle([refused, ...builds]);
  }

  // What refuses every release here: the GPU, or else a Python that one of them would run on.
  oneObstacle(builds) {
    const refused = builds.map((build) => [build, this.judge(build).conflicts.map((one) => one.between[1].split(":")[0])]);
    if (refused.every(([, subjects]) => subjects.includes("gpu"))) {
      const gpus = unique(this.host.gpus.map((gpu) => this.host.called(gpu))).join(", ");
      return [`no known release of ${builds[0].component} runs on ${gpus}`];
    }
    for (const [build, subjects] of refused) {
      if (subjects.length && subjects.every((one) => one === "python") && build.status !== "yanked") {
        const python = PYTHONS.find((minor) => isWithin(minor, build.python));
        return python ? [`with another Python (--python ${python}): ${namedBuild(build)}`] : [];
      }
    }
    return [];
  }

  // What the host refuses of a build, or what is unknown of it here.
  judge(build) {
    if (!this.judged.has(build)) {
      const glibc = build.glibc && this.platform.startsWith("linux") ? `>=${build.glibc}` : "";
      this.judged.set(build, merged(
        this.property(build, "python", build.python, `installs on Python ${build.pythons}`),
        this.glibc(build, glibc),
        this.onGpus(build), this.driver(build)));
    }
    return this.judged.get(build);
  }

  glibc(build, needed) {
    const found = this.property(build, "glibc", needed, `requires glibc ${build.glibc} or newer`);
    const row = build.built_on, values = this.host.values("glibc");
    if (!needed || !row || found.conflicts.length || found.unknown.length ||
        values.every((value) => isWithin(value, `>=${row.glibc}`))) return found;
    const required = row.refused ? row.glibc : 'a newer one';
    const text = `its tag says glibc ${build.glibc}, and its libraries are reported to require ${required}`;
    if (row.refused) {
      return this.conflict(build, `glibc: ${values[0]}`,
        `The wheel of ${namedBuild(build)} does not load: ${text}; this is glibc ${values[0]}.`, pages(this.facts, row.src));
    }
    return this.unknownOf(build, `${namedBuild(build)}: ${text}; whether they load with glibc ${values[0]} is unknown`,
      { needs: "glibc" });
  }

  property(build, name, needed, text) {
    if (!needed) return noFindings();
    const { host } = this, values = host.values(name);
    if (!values.length) {
      return this.unknownOf(build, `${namedBuild(build)}: it ${text}, and that of this host is unknown (--${name} gives it)`,
        { needs: name, option: `--${name}` });
    }
    if (values.every((value) => isWithin(value, needed))) return noFindings();
    const own = host.isAssumed(name) || !(host.system.stated ?? []).includes(name);
    const whose = own ? `${host.system.name} has` : "this is";
    return this.conflict(build, `${name}: ${values[0]}`,
      `The wheel of ${namedBuild(build)} ${text}; ${whose} ${name === "python" ? "Python" : name} ${values[0]}.`);
  }

  onGpus(build) {
    const { gpus } = this.host;
    if (!gpus.length) return noFindings();
    if (build.code === "python") {
      const refused = gpus.map((gpu) => gpu.cc ? this.beyond(build, gpu) : null);
      return refused.find((one) => one !== null) ?? noFindings();
    }
    if (build.code === "cpu") {
      const what = build.local ? `the build ${numberOf(build)}` : `the wheel of ${namedBuild(build)} for this platform`;
      return this.conflict(build, `gpu: ${this.host.called(gpus[0])}`, `This wheel has no CUDA: ${what} is a CPU build.`);
    }
    return merged(...gpus.map((gpu) => this.gpu(build, gpu)));
  }

  gpu(build, gpu) {
    const called = this.host.called(gpu);
    if (!gpu.cc) {
      return this.unknownOf(build, `${namedBuild(build)}: the compute capability of ${called} is unknown (--gpu gives it)`,
        { needs: "compute-capability", option: "--gpu" });
    }
    switch (this.covers(build, gpu.cc)) {
      case "code": return noFindings();
      case "unknown": return this.unknownOf(build, `${namedBuild(build)}: it is unknown which GPUs its wheel has code for`,
        { needs: "compute-capability" });
      case "ptx": return this.beyond(build, gpu) ?? this.compiledAtStart(build, called, gpu.cc);
      default: return this.conflict(build, `gpu: ${called}`, `${this.contents(build)}; ${called} is of ${gpu.cc}.`);
    }
  }

  // That a framework fails, or may fail, on a GPU that its PTX would run on.
  beyond(build, gpu) {
    if (!build.can || isWithin(gpu.cc, build.can)) return null;
    const called = this.host.called(gpu), sources = pages(this.facts, build.can_src);
    const reason = `${namedBuild(build)} on ${called}: ${build.can_says ?? ""}`;
    if (build.can_refused) return this.conflict(build, `gpu: ${called}`, `${reason}.`, sources);
    return merged({ unknown: [unknown(reason, { needs: "compute-capability", sources })] });
  }

  covers(build, capability) {
    if (build.code === "jit") {
      if (build.can) return isWithin(capability, build.can) ? "code" : "no";
      const compiles = this.compiles(build.release, capability);
      return compiles === null ? "unknown" : compiles ? "code" : "no";
    }
    if (!build.sass && !build.ptx) return "unknown";
    const major = capability.split(".")[0];
    const isBelow = (text) => compareVersions(text, capability) <= 0;
    if ((build.sass ?? []).some((text) => text.split(".")[0] === major && isBelow(text))) return "code";
    return (build.ptx ?? []).some(isBelow) ? "ptx" : "no";
  }

  // Whether a release of CUDA supports a compute capability; null if unknown.
  compiles(release, capability) {
    const rules = release ? this.question.book.applying("cuda", release).get("compute-capability") ?? [] : [];
    const held = rules.filter((rule) => !rule.advice && this.host.holds(rule, "cuda"));
    return held.length ? held.every((rule) => accepts(rule, release, capability)) : null;
  }

  contents(build) {
    const name = namedBuild(build);
    if (build.code === "jit") {
      return build.can ? `${name} supports GPUs of compute capability ${build.can_words}`
        : `${name} compiles for the GPU with CUDA ${build.cuda}, which lacks this one`;
    }
    const ptx = build.ptx ? ` and PTX for ${build.ptx.join(", ")}` : " and no PTX";
    return `${name} contains code for compute capabilities ${(build.sass ?? []).join(", ")}${ptx}: on other GPUs CUDA ` +
      "reports 'no kernel image is available for execution on the device'";
  }

  get drivers() {
    return "driver" in this.question.asked ? this.question.candidates("driver").map((one) => one.version) : [];
  }

  bound(release, advice) {
    const rules = release ? this.question.book.applying("cuda", release).get("driver") ?? [] : [];
    return rules.find((rule) => this.host.holds(rule, "cuda") && Boolean(rule.advice) === advice) ?? null;
  }

  compiledAtStart(build, called, capability) {
    for (const driver of this.drivers) {
      const own = this.bound(build.release, true);
      if (own && !accepts(own, build.release, driver)) {
        return this.conflict(build, `driver==${driver}`, `${namedBuild(build)} has only PTX for ${called}, which driver ` +
          `${driver} cannot compile: that needs a driver of CUDA ${build.cuda}. ${own.text}.`, pages(this.facts, own.src));
      }
    }
    if (build.newest && this.compiles(build.newest, capability) === false) {
      return this.unknownOf(build, `${namedBuild(build)} has only PTX for ${called}, and CUDA ${build.newest.split(".")[0]} has ` +
        "no libraries for it", { needs: "compute-capability" });
    }
    return merged({ warnings: [`${namedBuild(build)} has only PTX for ${called}: the driver compiles it at the first start`] });
  }

  driver(build) {
    if (build.code === "cpu" || build.code === "python" || !this.drivers.length) return noFindings();
    const rule = this.bound(build.release, false);
    if (!rule && "torch" in (build.requires ?? {})) return noFindings();
    if (!rule) {
      return this.unknownOf(build, `${namedBuild(build)}: it is unknown which driver its CUDA requires`, { needs: "driver" });
    }
    if (this.drivers.some((one) => accepts(rule, build.release, one))) return noFindings();
    const [driver] = this.drivers;
    return this.conflict(build, `driver==${driver}`,
      `${namedBuild(build)} is built for CUDA ${build.cuda}. ${rule.text}; this is ${driver}.`, pages(this.facts, rule.src));
  }

  conflict(build, other, reason, sources = []) {
    return merged({ conflicts: [{ kind: "framework", between: [namedBuild(build), other], reason,
      sources: unique([...pages(this.facts, build.src), ...sources]) }] });
  }

  unknownOf(build, reason, more) {
    return merged({ unknown: [unknown(reason, { ...more, sources: pages(this.facts, build.src) })] });
  }

  remarks(chosen) {
    const found = noFindings();
    for (const build of Object.values(chosen)) {
      const rule = this.bound(build.release, false), isCompiled = build.code === "cuda" || build.code === "jit";
      if (!this.drivers.length && rule && isCompiled) {
        found.warnings.push(`${namedBuild(build)} requires driver ${rule.words} (CUDA ${build.cuda})`);
      }
      if (isCompiled) this.libraries(build, found);
      if (build.status === "yanked") {
        found.warnings.push(`${namedBuild(build)} was withdrawn (yanked): pip installs it only if it is named exactly`);
      }
    }
    if (!this.host.gpus.length || PLUGINS.some((name) => name in chosen)) return found;
    if (chosen.jax) return merged(found, this.pluginFindings(chosen.jax));
    if (chosen.jaxlib) return merged(found, { conflicts: [this.withoutCuda(chosen.jaxlib, "the plugins for CUDA are wheels of their own")] });
    return found;
  }

  libraries(build, found) {
    const own = build.requires ?? {};
    if (build.component === "tensorrt-llm" && "tensorrt" in this.question.asked) {
      found.unknown.push(unknown(`${namedBuild(build)} with TensorRT of the system: which release it requires is unknown`,
        { sources: pages(this.facts, build.src) }));
    }
    for (const [name, word] of Object.entries(LIBRARIES)) {
      const text = name in this.question.asked ? this.question.candidates(name)[0]?.version : undefined;
      if (!text) continue;
      if (!build.cuda) {
        found.unknown.push(unknown(`${namedBuild(build)} with ${name}==${text}: the CUDA that it is built for is unknown`,
          { sources: pages(this.facts, build.src) }));
        continue;
      }
      const pin = Object.entries(own).find(([key]) => key.includes(`nvidia-${word}-`))?.[1] ?? "";
      if (pin || "cuda-toolkit" in own) {
        const loaded = (pin || (name === "cuda" ? own["cuda-toolkit"] : "")).replace(/^==/, "") || "its own";
        const title = this.host.title(name);
        if (loaded !== text) {
          found.warnings.push(`${namedBuild(build)} loads the ${title} of its wheels (${loaded}), not ${title} ${text}`);
        }
      } else if (name === "cuda" && text.split(".")[0] !== build.cuda.split(".")[0]) {
        found.conflicts.push({ kind: "framework", between: [namedBuild(build), `cuda==${text}`],
          reason: `${namedBuild(build)} loads the libraries of CUDA ${build.cuda.split(".")[0]}; this is CUDA ${text}.`,
          sources: pages(this.facts, build.src) });
      } else if (name === "cudnn" && build.cudnn) {
        const isOther = text.split(".")[0] !== build.cudnn, least = build.cudnn_least;
        if (!isOther && (!least || isWithin(text, `>=${least}`))) continue;
        found.conflicts.push({ kind: "framework", between: [namedBuild(build), `cudnn==${text}`],
          reason: isOther
            ? `${namedBuild(build)} loads the system's cuDNN ${build.cudnn} (libcudnn.so.${build.cudnn}); this is cuDNN ${text}.`
            : `${namedBuild(build)} was compiled with cuDNN ${least} and refuses an older one; this is cuDNN ${text}.`,
          sources: unique([...pages(this.facts, build.cudnn_src ?? []), ...pages(this.facts, build.src)]) });
      }
    }
  }

  pluginFindings(jax) {
    const judged = [];
    for (const name of PLUGINS) {
      const wanted = (jax.optional ?? {})[name];
      const builds = wanted === undefined ? [] : this.candidates(name, wanted);
      if (!wanted || !builds.length) continue;
      const beside = noFindings();
      this.libraries(builds[0], beside);
      judged.push([name, merged(this.judge(builds[0]), { conflicts: beside.conflicts })]);
    }
    const good = judged.find(([, found]) => !found.conflicts.length);
    if (good) {
      const extra = good[0].includes("cuda13") ? "cuda13" : "cuda12";
      return merged({ warnings: [`${namedBuild(jax)} alone computes on the CPU; pip install "jax[${extra}]==${jax.v}" adds ${good[0]}`] });
    }
    const refused = judged.find(([, found]) => found.conflicts.length);
    if (refused) return merged({ conflicts: refused[1].conflicts });
    return merged({ conflicts: [this.withoutCuda(jax, "no plugin for CUDA of this release is for this platform")] });
  }

  withoutCuda(build, why) {
    return { kind: "framework", between: [namedBuild(build), `gpu: ${this.host.called(this.host.gpus[0])}`],
      reason: `${namedBuild(build)} has no CUDA: ${why}.`, sources: pages(this.facts, build.src) };
  }
}

function indexOption(build) {
  return `${build.local ? "--index-url" : "--extra-index-url"} ${build.index}`;
}

// Whether a build is in the range of a pin; one with a local part means that build alone.
function keeps(build, pin) {
  return pin.includes("+") ? means(pin, build) : isWithin(build.v, pin);
}

// Whether a requirement means a build: its local part is named, or is none.
function means(rangeText, build) {
  const [number, local] = rangeText.split("+");
  if (local !== undefined) return build.local === local && isMeant(number, build.v);
  return !build.local && (!rangeText || isMeant(rangeText, build.v));
}

function frameworkFindings(question, { name, version: text }) {
  return new Frameworks(question, { [name]: `==${text}` }).findings();
}
