// A host as rules see it, and the rules that bind a version: solve/hostview.py and solve/rulebook.py.

const OPTIONS = {
  os: "--os", arch: "--arch", environment: "--environment", gpu: "--gpu", "compute-capability": "--gpu",
  kernel: "--kernel", glibc: "--glibc", gcc: "--gcc", clang: "--clang", msvc: "--msvc", python: "--python", l4t: "--os",
};
const SYSTEM_FIXED = new Set(["os", "arch", "environment", "glibc", "python", "l4t"]);

class Host {
  // `python` is the interpreter that is named, "" for the system's own.
  constructor(facts, system, gpu, python = "") {
    this.facts = facts;
    this.system = !python ? system : { ...system, values: { ...system.values, python: [python] },
      assumed: (system.assumed ?? []).filter((name) => name !== "python"),
      stated: [...(system.stated ?? []), "python"] };
    this.gpus = gpu ? [gpu] : [];
    this.isWindows = Boolean(system.windows);
    this.conditions = new Map();
    this.hostRefusals = new Map();
    this.pairRefusals = new Map();
    this.pulled = new Map();
  }

  systemOf(component) {
    return this.isWindows || (component === "driver" && this.system.environment === "wsl") ? "windows" : "linux";
  }

  called(gpu) {
    return gpu.called || gpu.name;
  }

  nameOf(gpu) {
    return gpu.own ?? gpu.name;
  }

  values(name) {
    if (name === "compute-capability") return unique(this.gpus.map((gpu) => gpu.cc).filter(Boolean));
    return (this.system.values ?? {})[name] ?? [];
  }

  isAssumed(name) {
    return (this.system.assumed ?? []).includes(name);
  }

  least(name) {
    return name === "glibc" ? this.system.least ?? "" : "";
  }

  get isKnown() {
    return this.gpus.every((gpu) => gpu.kind && gpu.cc);
  }

  title(name) {
    return this.facts.titles[name] ?? name;
  }

  // "" where the conditions hold, null where they do not, else the property that is missing.
  lacking(rule, component) {
    if (!rule.when) return "";
    let found = this.conditions.get(rule);
    if (found === undefined) {
      found = this.evaluate(rule, component);
      this.conditions.set(rule, found);
    }
    return found;
  }

  holds(rule, component) {
    return this.lacking(rule, component) === "";
  }

  evaluate({ when, objects = [] }, component) {
    const isOfDriver = component === "driver" || objects.includes("driver");
    const among = (value, wanted, name) => (value == null ? name : wanted.includes(value) ? "" : null);
    const answers = [];
    if (when.os) answers.push(among(this.systemOf(isOfDriver ? "driver" : ""), [when.os], "os"));
    if (when.system) answers.push(among(this.system.id, when.system, "os"));
    if (when.arch) answers.push(among(this.system.arch, when.arch, "arch"));
    if (when.environment) answers.push(among(this.system.environment, when.environment, "environment"));
    if (when.method) answers.push(among(this.system.methods[component] ?? "network", when.method, "method"));
    if (when.glibc) {
      const [library] = this.values("glibc");
      answers.push(!library ? "glibc" : isWithin(library, when.glibc) ? "" : null);
    }
    if (when.gpu_class || when.compute_capability || when.gpu || when.fabric !== undefined || when.mig) {
      const hasSwitches = this.gpus.some((gpu) => gpu.fabric === "nvswitch");
      answers.push(when.fabric === false && hasSwitches ? null : this.anyMeets(when));
    }
    return together(answers);
  }

  anyMeets(when) {
    const answers = this.gpus.length ? this.gpus.map((gpu) => this.meets(gpu, when)) : ["gpu"];
    return answers.includes("") ? "" : answers.find(Boolean) ?? null;
  }

  meets(gpu, when) {
    const among = (value, wanted, name) => (value ? (wanted.includes(value) ? "" : null) : name);
    const answers = [];
    if (when.gpu_class) answers.push(among(gpu.kind, when.gpu_class, "gpu"));
    if (when.gpu) answers.push(among(this.nameOf(gpu), when.gpu, "gpu"));
    if (when.mig) answers.push(null);
    if (when.fabric !== undefined) answers.push((gpu.fabric === "nvswitch") === when.fabric ? "" : null);
    if (when.compute_capability) {
      answers.push(!gpu.cc ? "compute-capability" : isWithin(gpu.cc, when.compute_capability) ? "" : null);
    }
    return together(answers);
  }

  // Whether a toolkit that was asked about has to compile with the host's value of a property.
  isCompiledWith(question, component, text, name) {
    const isWith = name === "glibc" || (name !== "clang" && !this.isAssumed(name));
    const isOwn = name === "glibc" && component === "cuda" && (this.system.own ?? []).includes(text);
    return isWith && component in question.asked && !isOwn;
  }
}

function together(answers) {
  return answers.includes(null) ? null : answers.find(Boolean) ?? "";
}

function accepts(rule, subject, value) {
  if (rule.equal) return compareVersions(subject, value) === 0;
  if (rule.none) return !rule.none.some((text) => isWithin(value, text));
  return (rule.any ?? []).some((text) => isWithin(value, text));
}

class Rules {
  constructor(facts) {
    this.facts = facts;
    this.found = new Map();
    this.candidates = new Map();
    this.components = new Set(["driver", "fabric-manager", "imex", "cuda", "cuda-compat", "cudnn", "nccl", "tensorrt",
      "tensorrt-rtx", "nv-codec-headers", "ffmpeg", "container-toolkit", "dcgm", "gdrcopy", "gds", "triton"]);
  }

  // A version of a component, one object for each.
  candidate(component, row) {
    if (!this.candidates.has(row)) {
      this.candidates.set(row, { id: this.candidates.size + 1, component, version: row.v, row });
    }
    return this.candidates.get(row);
  }

  // The rules that bind a version, by what they are about.
  applying(component, text) {
    if (!this.found.has(component)) this.found.set(component, new Map());
    const known = this.found.get(component);
    let found = known.get(text);
    if (!found) {
      found = new Map();
      const binding = this.facts.binding[component];
      const places = binding ? binding.sets[binding.of[text]] ?? [] : [];
      for (const place of places) {
        const rule = this.facts.rules[component][place];
        for (const name of rule.objects) {
          if (!found.has(name)) found.set(name, []);
          found.get(name).push(rule);
        }
      }
      known.set(text, found);
    }
    return found;
  }

  covers(component, text, other, host) {
    return (this.applying(component, text).get(other) ?? []).some((rule) => host.holds(rule, component));
  }

  oneWay(component, text, other, value, host, advice) {
    return (this.applying(component, text).get(other) ?? []).filter(
      (rule) => Boolean(rule.advice) === advice && !accepts(rule, text, value) && host.holds(rule, component));
  }

  breach(a, va, b, vb, host, advice) {
    return this.oneWay(a, va, b, vb, host, advice)[0] ?? this.oneWay(b, vb, a, va, host, advice)[0] ?? null;
  }

  propertyBreach(question, component, text, name, advice) {
    const host = question.host;
    const isGuess = name === "kernel" && host.isAssumed(name);
    for (const value of host.values(name)) {
      for (const rule of this.applying(component, text).get(name) ?? []) {
        if (accepts(rule, text, value) || !host.holds(rule, component)) continue;
        if (name === "python" && rule.advice && !(host.system.stated ?? []).includes(name)) continue;
        const compiles = rule.compiling && host.isCompiledWith(question, component, text, name);
        if ((isGuess || Boolean(rule.advice && !compiles)) === advice) return { rule, value };
      }
    }
    return null;
  }

  hostAdvice(question, component, text) {
    return [...this.applying(component, text).keys()].filter((name) => !this.components.has(name))
      .map((name) => this.propertyBreach(question, component, text, name, true)).filter(Boolean);
  }

  pulled(component, text, host) {
    return new Set([...this.applying(component, text)]
      .filter(([name, rules]) => this.components.has(name) &&
        rules.some((rule) => rule.pulls && host.holds(rule, component)))
      .map(([name]) => name));
  }
}
