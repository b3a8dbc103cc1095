// Whether a stack exists, and the smallest cause where none does: solve/search.py and solve/conflict.py.

const NOT_TO_CHOOSE_BY = new Set(["gcc", "clang", "msvc", "python"]);
const FINISHED = new Set(["released", ""]);

class Question {
  constructor(book, host, asked) {
    this.book = book;
    this.facts = book.facts;
    this.host = host;
    this.asked = asked; // component -> range, in the order of the request
    this.candidateCache = new Map();
  }

  varied(asked) {
    return new Question(this.book, this.host, asked);
  }

  releasedHere(component) {
    const system = this.host.systemOf(component), arch = this.host.system.arch;
    const word = system === "windows" && arch !== "x86_64" ? `${system}-${arch}` : arch;
    return (this.facts.releases[component] ?? []).filter((row) => (!row.os || row.os.includes(system)) &&
      (!row.arch || row.arch.includes(word)) && !["jetson-only", "jetson-named"].includes(row.status));
  }

  candidates(component, isFree = false) {
    const key = `${component} ${isFree}`;
    if (!this.candidateCache.has(key)) {
      const wanted = isFree ? "" : this.asked[component] ?? "";
      const rows = this.released(component, wanted);
      if (component === "driver") rows.sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0));
      this.candidateCache.set(key, rows.map((row) => this.book.candidate(component, row)));
    }
    return this.candidateCache.get(key);
  }

  released(component, text) {
    const rows = this.releasedHere(component);
    const isUsable = (row) => FINISHED.has(row.status ?? "released");
    if (!text) return rows.filter(isUsable);
    let found = rows.filter((row) => isWithin(row.v, text));
    if (!found.length) found = rows.filter((row) => isLine(text, row.v));
    const finished = found.filter(isUsable);
    if (finished.length) return finished;
    const isExact = exactVersion(text) !== null;
    return found.filter((row) => isExact || !row.unread);
  }

  // What of the host refuses a version, by property in their order.
  hostRefusals(candidate) {
    const { component, version: text } = candidate;
    const key = component in this.asked ? candidate.id : -candidate.id;
    let found = this.host.hostRefusals.get(key);
    if (!found) {
      const rules = this.book.applying(component, text);
      found = this.facts.properties.filter((name) => rules.has(name)).map((name) => {
        const breach = this.book.propertyBreach(this, component, text, name, false);
        return breach && { ...breach, property: name, constraint: `host ${component} ${name}` };
      }).filter(Boolean);
      this.host.hostRefusals.set(key, found);
    }
    return found;
  }

  pairRefusals(a, b) {
    const key = a.id * 65536 + b.id;
    let found = this.host.pairRefusals.get(key);
    if (!found) {
      found = [];
      for (const [one, other] of [[a, b], [b, a]]) {
        const [rule] = this.book.oneWay(one.component, one.version, other.component, other.version, this.host, false);
        if (rule) {
          found.push({ rule, value: other.version, second: other.component,
            constraint: `pair ${one.component} ${other.component}` });
        }
      }
      this.host.pairRefusals.set(key, found);
    }
    return found;
  }
}

class Search {
  constructor(question, off = new Set()) {
    this.question = question;
    this.book = question.book;
    this.host = question.host;
    this.off = off;
    this.order = question.facts.components;
  }

  domain(component) {
    return this.question.candidates(component, this.off.has(`asked ${component}`));
  }

  get members() {
    if (!this.memberCache) {
      const members = {};
      for (const name of Object.keys(this.question.asked)) members[name] = true;
      const pending = Object.keys(members);
      while (pending.length) {
        const name = pending.shift();
        for (const [other, isNeeded] of this.needs(name)) {
          const hasToBe = isNeeded && members[name];
          if (other in members && (members[other] || !hasToBe)) continue;
          if (!(other in this.question.asked) && !this.question.candidates(other).length) continue;
          members[other] = hasToBe;
          pending.push(other);
        }
      }
      this.memberCache = members;
    }
    return this.memberCache;
  }

  needs(component) {
    const unlike = new Map();
    for (const candidate of this.domain(component)) {
      unlike.set(this.book.facts.binding[component].of[candidate.version], candidate);
    }
    const found = [...unlike.values()].map((candidate) => this.required(candidate));
    return this.order.filter((name) => found.some((one) => one.has(name)))
      .map((name) => [name, found.every((one) => one.has(name))]);
  }

  required(candidate) {
    const component = candidate.component;
    return new Set([...this.book.applying(component, candidate.version)]
      .filter(([name, rules]) => this.order.includes(name) && !this.off.has(`pair ${component} ${name}`) &&
        rules.some((rule) => rule.pulls && !rule.equal && this.host.holds(rule, component)))
      .map(([name]) => name));
  }

  pulled(candidate) {
    let found = this.host.pulled.get(candidate.id);
    if (!found) {
      found = this.book.pulled(candidate.component, candidate.version, this.host);
      this.host.pulled.set(candidate.id, found);
    }
    return found;
  }

  run() {
    const members = this.members;
    const order = Object.keys(members).sort((a, b) =>
      Number(!(members[a] || a === "driver")) - Number(!(members[b] || b === "driver")) ||
      this.order.indexOf(a) - this.order.indexOf(b));
    const [solution] = this.extend({}, order, members);
    return solution && this.withoutIdle(solution, members);
  }

  withoutIdle(solution, members) {
    const kept = {};
    for (const name of this.order) if (name in solution) kept[name] = solution[name];
    for (;;) {
      const idle = Object.keys(kept).find((name) => kept[name] && !members[name] && this.mayBeAbsent(name, kept));
      if (!idle) return kept;
      kept[idle] = null;
    }
  }

  extend(chosen, order, members) {
    if (!order.length) return [chosen, new Set()];
    const [name, ...rest] = order;
    const blamed = new Set();
    for (const candidate of this.tries(name, chosen, members[name])) {
      const extended = { ...chosen, [name]: candidate };
      const failed = rest.find((other) => !this.hasSupport(other, extended, members[other]));
      let culprits;
      if (failed === undefined) {
        const [solution, found] = this.extend(extended, rest, members);
        if (solution) return [solution, new Set()];
        culprits = found;
      } else {
        culprits = this.blame(failed, extended, members[failed]);
      }
      if (!culprits.has(name)) return [null, culprits];
      culprits.forEach((one) => blamed.add(one));
    }
    this.blame(name, chosen, members[name]).forEach((one) => blamed.add(one));
    blamed.delete(name);
    return [null, blamed];
  }

  blame(name, chosen, isNeeded) {
    const culprits = new Set();
    for (const candidate of this.domain(name)) {
      if (this.hostRefusal(candidate)) continue;
      const pulled = this.pulled(candidate);
      for (const [other, pick] of Object.entries(chosen)) {
        if (pick === null ? pulled.has(other) : this.pairRefusal(candidate, pick)) culprits.add(other);
      }
    }
    if (!isNeeded) {
      for (const pick of Object.values(chosen)) if (pick && this.pulled(pick).has(name)) culprits.add(pick.component);
    }
    return culprits;
  }

  *tries(name, chosen, isNeeded) {
    const mayBeAbsent = !isNeeded && this.mayBeAbsent(name, chosen);
    if (mayBeAbsent && name !== "driver") yield null;
    const later = [];
    for (const candidate of this.domain(name)) {
      if (this.refusal(candidate, chosen)) continue;
      const isLater = doubtsOf(this.question, candidate).length || this.advice(candidate, chosen) ||
        badPairs(this.question, candidate).some((row) => row.effect !== "warns");
      if (isLater) later.push(candidate);
      else yield candidate;
    }
    yield* later;
    if (mayBeAbsent && name === "driver") yield null;
  }

  mayBeAbsent(name, chosen) {
    return !Object.values(chosen).some((other) => other && this.pulled(other).has(name));
  }

  hasSupport(name, chosen, isNeeded) {
    if (!isNeeded && this.mayBeAbsent(name, chosen)) return true;
    return this.domain(name).some((candidate) => !this.refusal(candidate, chosen));
  }

  refusal(candidate, chosen) {
    const refused = this.hostRefusal(candidate);
    if (refused) return refused;
    const pulled = this.pulled(candidate);
    for (const [name, other] of Object.entries(chosen)) {
      if (other === null) {
        if (pulled.has(name)) return { constraint: `pair ${candidate.component} ${name}` };
      } else {
        const found = this.pairRefusal(candidate, other);
        if (found) return found;
      }
    }
    return null;
  }

  hostRefusal(candidate) {
    return this.question.hostRefusals(candidate).find((one) => !this.off.has(one.constraint)) ?? null;
  }

  pairRefusal(a, b) {
    return this.question.pairRefusals(a, b).find((one) => !this.off.has(one.constraint)) ?? null;
  }

  advice(candidate, chosen) {
    const { component, version: text } = candidate;
    if (this.book.hostAdvice(this.question, component, text).some(({ rule }) => !NOT_TO_CHOOSE_BY.has(rule.objects[0]))) {
      return true;
    }
    for (const other of Object.values(chosen)) {
      if (other && this.book.breach(component, text, other.component, other.version, this.host, true)) return true;
    }
    for (const [name, rules] of this.book.applying(component, text)) {
      if (!(name in chosen) && rules.some((rule) => rule.equal && rule.pulls && this.host.holds(rule, component)) &&
          this.book.oneWay(name, text, component, text, this.host, true).length) return true;
    }
    return false;
  }
}

// The constraints that cannot hold together; without any one of them there is a stack.
function smallestCause(search) {
  const question = search.question;
  const freed = new Set(search.order.map((name) => `asked ${name}`));
  const members = Object.keys({ ...search.members, ...new Search(question, freed).members });
  const isAsked = (name) => Number(name in question.asked);
  const pairs = members.flatMap((a) => members.filter((b) => b !== a).map((b) => [a, b]));
  pairs.sort(([a, b], [c, d]) => isAsked(a) + isAsked(b) - isAsked(c) - isAsked(d));
  const everything = [
    ...pairs.map(([a, b]) => `pair ${a} ${b}`),
    ...members.flatMap((name) => question.facts.properties.map((property) => `host ${name} ${property}`)),
    ...members.filter((name) => question.asked[name]).map((name) => `asked ${name}`),
  ];
  const off = new Set();
  for (const one of everything) if (!new Search(question, new Set([...off, one])).run()) off.add(one);
  return everything.filter((one) => !off.has(one));
}
