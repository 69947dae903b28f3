// The planner of commit 0d2b21468af4b96b85cfcebc8afa845268010d56, written by scripts/freeze-planner.ts.
"use strict";
var __create = Object.create;
var __defProp = Object.defineProperty;
var __getOwnPropDesc = Object.getOwnPropertyDescriptor;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __getProtoOf = Object.getPrototypeOf;
var __hasOwnProp = Object.prototype.hasOwnProperty;
var __export = (target, all) => {
  for (var name in all)
    __defProp(target, name, { get: all[name], enumerable: true });
};
var __copyProps = (to, from, except, desc) => {
  if (from && typeof from === "object" || typeof from === "function") {
    for (let key2 of __getOwnPropNames(from))
      if (!__hasOwnProp.call(to, key2) && key2 !== except)
        __defProp(to, key2, { get: () => from[key2], enumerable: !(desc = __getOwnPropDesc(from, key2)) || desc.enumerable });
  }
  return to;
};
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(
  // If the importer is in node compatibility mode or this is not an ESM
  // file that has been converted to a CommonJS file using a Babel-
  // compatible transform (i.e. "__esModule" has not been set), then set
  // "default" to the CommonJS "module.exports" for node compatibility.
  isNodeMode || !mod || !mod.__esModule ? __defProp(target, "default", { value: mod, enumerable: true }) : target,
  mod
));
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

// test/framework/oracle/fleet.ts
var fleet_exports = {};
__export(fleet_exports, {
  Fleet: () => Fleet
});
module.exports = __toCommonJS(fleet_exports);

// test/framework/oracle/objects.ts
var START = Date.UTC(2027, 0, 15, 8);
var NAMESPACE = "brupop";
var MANAGED = { "bottlerocket.aws/updater-interface-version": "2.0.0" };
function timeOf(ms) {
  return new Date(ms).toISOString().replace(/\.\d+Z$/u, "Z");
}
var DAY_MS = 864e5;
function newNode(index, uid) {
  const at2 = timeOf(START - DAY_MS);
  const role = index === 5 || index === 4 ? { "node-role.kubernetes.io/control-plane": "" } : {};
  const labels = {
    ...MANAGED,
    ...role,
    pool: index % 2 === 0 ? "even" : "odd",
    "topology.kubernetes.io/zone": `z${index % 3}`
  };
  return {
    metadata: {
      name: `node-${index}`,
      uid,
      resourceVersion: "1",
      creationTimestamp: timeOf(START - 30 * DAY_MS),
      labels,
      annotations: {}
    },
    spec: { taints: [] },
    status: {
      conditions: [{ type: "Ready", status: "True", lastTransitionTime: at2 }],
      nodeInfo: { bootID: "boot-0" }
    }
  };
}
function newShadow(node, uid, now) {
  const owner = { apiVersion: "v1", kind: "Node", name: node.metadata.name, uid: node.metadata.uid };
  const name = `brs-${node.metadata.name}`;
  const own2 = { labels: {}, annotations: {}, ownerReferences: [owner] };
  return {
    metadata: {
      name,
      namespace: NAMESPACE,
      uid,
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: timeOf(now),
      ...own2
    },
    spec: { state: "Idle" },
    status: {}
  };
}
function newObject(name, uid, spec, generation) {
  const metadata13 = {
    name,
    uid,
    resourceVersion: String(generation),
    generation,
    creationTimestamp: timeOf(START),
    labels: {},
    annotations: {}
  };
  return { metadata: metadata13, spec };
}
var WEB = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "web", controller: true };
var DB = { apiVersion: "apps/v1", kind: "StatefulSet", name: "db", uid: "db", controller: true };
var LABELS = {
  member: { app: "db" },
  held: { app: "held" },
  last: { app: "held", "brupop.bottlerocket.aws/drain": "last" }
};
function labelsOf(kind, node) {
  const labels = LABELS[kind] ?? { app: "web" };
  return kind === "member" && node === "node-0" ? { ...labels, role: "leader" } : labels;
}
function newPod(kind, node, since, isReady = true) {
  const name = `${kind}-${node}`;
  const ready3 = isReady && kind !== "unready" && kind !== "crashing";
  const running = { state: { running: { startedAt: since } } };
  const waiting3 = { state: { waiting: { reason: "CrashLoopBackOff" } }, restartCount: 7 };
  const stays = { finalizers: ["example.com/slow"], deletionTimestamp: timeOf(START) };
  return {
    metadata: {
      name,
      namespace: "apps",
      uid: name,
      resourceVersion: "1",
      creationTimestamp: timeOf(START - DAY_MS),
      labels: labelsOf(kind, node),
      ...kind !== "bare" && { ownerReferences: [kind === "member" ? DB : WEB] },
      ...kind === "finalizer" && stays
    },
    spec: { nodeName: node },
    status: {
      phase: "Running",
      conditions: [{ type: "Ready", status: ready3 ? "True" : "False", lastTransitionTime: since }],
      containerStatuses: [kind === "crashing" ? waiting3 : running]
    }
  };
}
function newBudget(allows, field2) {
  return {
    metadata: { name: "held", namespace: "apps", uid: "held", resourceVersion: `${allows}${field2}`, generation: 1 },
    spec: { selector: { matchLabels: { app: "held" } }, [field2]: field2 === "minAvailable" ? 1 : allows },
    status: {
      observedGeneration: 1,
      disruptionsAllowed: allows,
      currentHealthy: 1,
      desiredHealthy: 1 - allows,
      expectedPods: 1
    }
  };
}

// test/framework/oracle/agents.ts
var CORDONED = "brupop.bottlerocket.aws/cordoned";
function act(machine, what, now) {
  const { state: state2 } = machine.shadow.spec;
  if (what === "is held") return state2 === "RebootedIntoUpdate" ? held(machine, now) : machine;
  if (what === "forgets") return state2 === "Idle" ? { ...confirms(machine, now), node: machine.node } : machine;
  return what === "acts" ? goesOn(machine, now) : failed(machine, what, now);
}
function goesOn(machine, now) {
  const { state: state2 } = machine.shadow.spec;
  if (isAnswered(machine.shadow)) return state2 === "Idle" ? confirms(machine, now) : machine;
  if (state2 === "StagedAndPerformedUpdate") return stages(machine, now);
  return state2 === "RebootedIntoUpdate" ? reboots(machine, now) : confirms(machine, now);
}
function isAnswered({ metadata: metadata13, spec, status }) {
  const is4 = (state2) => status["current_state"] === state2;
  return status["observedGeneration"] === metadata13.generation && (is4(spec.state) || is4("ErrorReset"));
}
function operationOf({ shadow: shadow2 }) {
  return shadow2.status["lastOperation"] ?? {};
}
function isDoing(machine, operation2) {
  const last = operationOf(machine);
  const isNow = machine.shadow.status["observedGeneration"] === machine.shadow.metadata.generation;
  return isNow && last["operation"] === operation2 && last["state"] === "Processing";
}
function reports(machine, changes) {
  const { shadow: shadow2, host } = machine;
  const status = {
    crash_count: 0,
    state_transition_failure_timestamp: null,
    ...shadow2.status,
    current_version: host.running,
    observedGeneration: shadow2.metadata.generation,
    bootID: machine.node.status.nodeInfo.bootID,
    ...changes
  };
  return { ...machine, shadow: { ...shadow2, status } };
}
function operation({ node, shadow: shadow2 }, name, state2, now) {
  const time2 = timeOf(now);
  const { version: version3 } = shadow2.spec;
  return {
    operation: name,
    state: state2,
    version: version3,
    bootID: node.status.nodeInfo.bootID,
    startTime: time2,
    lastUpdateTime: time2
  };
}
function stages(machine, now) {
  if (!isDoing(machine, "Stage")) {
    const lastOperation4 = operation(machine, "Stage", "Processing", now);
    return reports(machine, { current_state: "Idle", lastOperation: lastOperation4 });
  }
  const lastOperation3 = { ...operationOf(machine), state: "Succeeded", lastUpdateTime: timeOf(now) };
  return reports(machine, { current_state: "StagedAndPerformedUpdate", lastOperation: lastOperation3 });
}
function reboots(machine, now) {
  const startTime = timeOf(now);
  const { generation: observedGeneration } = machine.shadow.metadata;
  if (isDoing(machine, "Reboot")) return boots(machine, now, machine.shadow.spec.version ?? "");
  if (isDoing(machine, "Drain")) {
    const drain2 = { observedGeneration, startTime, endTime: startTime, result: "Drained", evicted: 1, remaining: 0 };
    const lastOperation4 = operation(machine, "Reboot", "Processing", now);
    const next2 = reports(machine, { current_state: "StagedAndPerformedUpdate", drain: drain2, lastOperation: lastOperation4 });
    return { ...next2, node: withReady(next2.node, "Unknown", now) };
  }
  const drain = { observedGeneration, startTime, evicted: 0, remaining: 1 };
  const lastOperation3 = operation(machine, "Drain", "Processing", now);
  const next = reports(machine, { current_state: "StagedAndPerformedUpdate", drain, lastOperation: lastOperation3 });
  return { ...next, node: cordoned(next.node, now) };
}
function boots(machine, now, version3) {
  const { host } = machine;
  const boot = host.boots + 1;
  const ready3 = withReady(machine.node, "True", now);
  const node = uncordoned({ ...ready3, status: { ...ready3.status, nodeInfo: { bootID: `boot-${boot}` } } });
  const next = { ...machine, node, host: { ...host, running: version3, boots: boot } };
  const lastOperation3 = { ...operationOf(machine), state: "Succeeded", lastUpdateTime: timeOf(now) };
  return reports(withSettings(next, ["Live", "RestartsService", "NeedsReboot"]), {
    current_state: "RebootedIntoUpdate",
    lastOperation: lastOperation3
  });
}
function confirms(machine, now) {
  const { spec } = machine.shadow;
  if (spec.state !== "Idle") return reports(machine, { current_state: spec.state });
  const lock = spec.settings?.leaves.find(({ key: key2 }) => key2 === "settings.updates.version-lock");
  const pinned = lock === void 0 ? machine.host.offered : JSON.parse(lock.value);
  const set = withSettings(machine, allowedBy(spec.settings?.allow ?? "None"));
  const down = set.node.status.conditions.some(({ type, status }) => type === "Ready" && status === "Unknown");
  const node = uncordoned(down ? withReady(set.node, "True", now) : set.node);
  return reports({ ...set, node }, { current_state: "Idle", target_version: pinned });
}
var CLASSES = ["Live", "RestartsService", "NeedsReboot"];
var allowedBy = (allow) => CLASSES.slice(0, CLASSES.indexOf(allow) + 1);
function classOf(key2) {
  if (key2.includes("lockdown")) return "NeedsReboot";
  return key2.includes("max-pods") ? "RestartsService" : "Live";
}
function isOfUpdater({ key: key2 }) {
  return key2.startsWith("settings.updates.");
}
function withSettings(machine, allowed) {
  const { host, shadow: shadow2 } = machine;
  const leaves2 = shadow2.spec.settings?.leaves ?? [];
  const may = (key2) => allowed.includes(classOf(key2));
  const wanted = leaves2.filter((leaf2) => !isOfUpdater(leaf2));
  const dropped2 = Object.keys(host.settings).filter((key2) => !wanted.some((leaf2) => leaf2.key === key2));
  const isChange = ({ key: key2, value: value2 }) => host.settings[key2] !== value2;
  const kept = Object.entries(host.settings).filter(([key2]) => !dropped2.includes(key2) || !may(key2));
  const done = wanted.filter((leaf2) => !isChange(leaf2) || may(leaf2.key));
  const left = wanted.filter((leaf2) => !done.includes(leaf2)).map(({ key: key2 }) => key2);
  const settings2 = Object.fromEntries([...kept, ...done.map(({ key: key2, value: value2 }) => [key2, value2])]);
  const pending2 = [...left, ...dropped2.filter((key2) => !may(key2))].map((key2) => ({
    key: key2,
    class: classOf(key2),
    reason: "because"
  }));
  const records = [...leaves2.filter(isOfUpdater), ...done].map(({ key: key2, value: value2, owner }) => ({ key: key2, value: value2, owner }));
  const status = { ...shadow2.status, settings: { records, ...pending2.length > 0 && { pending: pending2 } } };
  return { ...machine, host: { ...host, settings: settings2 }, shadow: { ...shadow2, status } };
}
var CODES = { StagedAndPerformedUpdate: "PrepareFailed", RebootedIntoUpdate: "RolledBack" };
function failed(machine, what, now) {
  const { state: state2 } = machine.shadow.spec;
  if (state2 !== "StagedAndPerformedUpdate" && state2 !== "RebootedIntoUpdate") return machine;
  const isDown2 = isDoing(machine, "Reboot");
  const own2 = isDown2 || state2 === "StagedAndPerformedUpdate" ? CODES[state2] : "DrainTimedOut";
  const byName5 = { fails: own2, "times out": "StepTimedOut", "is withdrawn": "VersionNotOffered" };
  const errorCode = byName5[what];
  const back = isDown2 ? boots(machine, now, machine.host.running) : machine;
  const last = {
    ...operation(back, "Stage", "Failed", now),
    ...operationOf(back),
    state: "Failed",
    errorCode,
    message: "it did not work"
  };
  const crash_count = Number(machine.shadow.status["crash_count"] ?? 0) + 1;
  return reports(back, { current_state: "ErrorReset", crash_count, lastOperation: last });
}
function held(machine, now) {
  const time2 = timeOf(now);
  const { generation: observedGeneration } = machine.shadow.metadata;
  const blockedBy2 = [{ pod: "apps/held", reason: "DisruptionBudget", message: "refused", since: time2 }];
  const drain = { observedGeneration, startTime: time2, evicted: 0, remaining: 1, blockedBy: blockedBy2 };
  const lastOperation3 = operation(machine, "Drain", "Processing", now);
  const next = reports(machine, { current_state: "StagedAndPerformedUpdate", drain, lastOperation: lastOperation3 });
  return { ...next, node: cordoned(next.node, now) };
}
function withCondition(node, type, status, now) {
  const others = node.status.conditions.filter((one) => one.type !== type);
  const before = node.status.conditions.find((one) => one.type === type);
  const lastTransitionTime = before?.status === status ? before.lastTransitionTime : timeOf(now);
  return { ...node, status: { ...node.status, conditions: [...others, { type, status, lastTransitionTime }] } };
}
function withReady(node, status, now) {
  return withCondition(node, "Ready", status, now);
}
function cordoned(node, now) {
  if (node.spec.unschedulable === true) return node;
  const annotations = { ...node.metadata.annotations, [CORDONED]: timeOf(now) };
  return { ...node, metadata: { ...node.metadata, annotations }, spec: { ...node.spec, unschedulable: true } };
}
function uncordoned(node) {
  const { [CORDONED]: own2, ...annotations } = node.metadata.annotations;
  if (own2 === void 0) return node;
  return { ...node, metadata: { ...node.metadata, annotations }, spec: { ...node.spec, unschedulable: false } };
}

// packages/shared/src/api/brupop-config.ts
var v14 = __toESM(require("valibot"), 1);

// packages/shared/src/api/config-quorums.ts
var v5 = __toESM(require("valibot"), 1);

// packages/shared/src/api/config-values.ts
var v3 = __toESM(require("valibot"), 1);

// packages/shared/src/runtime/clock.ts
function wallTimeOf(monotonic, now) {
  return now.wall - (now.monotonic - monotonic);
}
function rfc3339(epochMs) {
  return `${new Date(epochMs).toISOString().slice(0, 19)}Z`;
}
function parseTime(text6) {
  if (text6 == null) return void 0;
  const ms = Date.parse(text6);
  return Number.isNaN(ms) ? void 0 : ms;
}

// packages/shared/src/runtime/errors.ts
var INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]/gu;
var LINE_BREAK = /[\n\v\f\r\u0085\u2028\u2029]/u;
function printable(text6) {
  return text6.replaceAll("	", " ").replaceAll(INVISIBLE, "\uFFFD");
}
function describe(found) {
  if (found === void 0) return "nothing";
  if (typeof found === "object" && found !== null) return Array.isArray(found) ? "a list" : "an object";
  return JSON.stringify(typeof found === "string" ? shorten(found, 100) : found);
}
function truncated(text6, length) {
  return text6.length <= length ? text6 : Buffer.from(text6.slice(0, length)).toString();
}
function shorten(text6, length) {
  const lines = text6.split(LINE_BREAK).map((one) => one.trim());
  const line = lines.filter((one) => one !== "").join("; ");
  if (line.length <= length) return printable(line);
  const head = Math.floor(length / 3);
  return printable(`${line.slice(0, head)} \u2026 ${line.slice(head - length)}`);
}
var MAX_NAMED = 3;
function namesOf(names) {
  const more = names.length > MAX_NAMED ? " and others" : "";
  return `${names.toSorted().slice(0, MAX_NAMED).join(", ")}${more}`;
}

// packages/shared/src/api/schema.ts
var v = __toESM(require("valibot"), 1);
function parse(schema, value2, name, refuse) {
  const { success, output, issues } = v.safeParse(schema, value2, { abortEarly: true });
  if (success) return output;
  throw refuse(describeIssue(issues[0], name));
}
function describeIssue({ path, message, input }, name) {
  const keys4 = (path ?? []).map(({ key: key2 }) => typeof key2 === "number" ? `[${key2}]` : `.${String(key2)}`).join("");
  return printable(`${`${name}${keys4}`.replace(/^\./u, "")}: expected ${message}, found ${describe(input)}`);
}
function described(schema, description, keywords = {}) {
  return v.pipe(schema, v.metadata({ description, ...keywords }));
}
function optional(schema, description, keywords = {}) {
  return v.exactOptional(described(schema, description, keywords));
}
function nullable2(schema, description, keywords = {}) {
  return v.exactOptional(v.nullable(described(schema, description, keywords)));
}
var PRINTABLE = "^[^\\p{Cc}\\p{Cf}\\p{Co}\\p{Zl}\\p{Zp}]*$";
function text(max, expected = `a text of at most ${max} characters`) {
  return v.pipe(
    v.string(expected),
    v.maxLength(max, expected),
    v.transform(printable),
    v.metadata({ pattern: PRINTABLE })
  );
}
function textThat(test, max, expected, pattern = PRINTABLE) {
  return v.pipe(v.string(expected), v.maxLength(max, expected), v.check(test, expected), v.metadata({ pattern }));
}
function whole(min, max) {
  const expected = `a whole number from ${min} to ${max}`;
  return v.pipe(v.number(expected), v.integer(expected), v.minValue(min, expected), v.maxValue(max, expected));
}
var INT32 = 2147483647;
function count(max = INT32) {
  const expected = `a whole number from 0 to ${max}`;
  const atMost = v.check((value2) => value2 <= max, expected);
  return v.pipe(v.number(expected), v.integer(expected), v.minValue(0, expected), atMost);
}
function count64() {
  return v.pipe(count(Number.MAX_SAFE_INTEGER), v.metadata({ format: "int64" }));
}
function flag() {
  return v.boolean("true or false");
}
function oneOf(values2) {
  return v.picklist(values2, `one of ${values2.join(", ")}`);
}
var TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/u;
function isTime(value2) {
  return TIME.test(value2) && parseTime(value2) !== void 0;
}
function time() {
  const expected = "an RFC 3339 time";
  return v.pipe(v.string(expected), v.check(isTime, expected), v.metadata({ format: "date-time" }));
}
function list(item, max) {
  return v.pipe(v.array(item, "a list"), v.maxLength(max, `a list of at most ${max}`));
}
function closedObject(entries2) {
  return object2(entries2, true);
}
function partial2(entries2) {
  return object2(v.partial(v.object(entries2)).entries);
}
function object2(entries2, closed2 = false) {
  const schema = v.object(entries2, "an object");
  const required = Object.keys(entries2).filter((name) => !/optional|nullish/u.test(entries2[name]?.type ?? ""));
  const absent = Object.fromEntries(required.map((name) => [name, void 0]));
  return {
    ...schema,
    "~run"(dataset, config) {
      const input = dataset.value;
      if (typeof input !== "object" || input === null) return schema["~run"](dataset, config);
      const unknown7 = closed2 ? Object.keys(input).find((name) => !Object.hasOwn(entries2, name)) : void 0;
      if (Array.isArray(input)) v._addIssue(schema, "type", dataset, config);
      else if (unknown7 !== void 0) v._addIssue(schema, "key", dataset, config, unknownField(input, unknown7));
      else return withoutUndefined(schema["~run"]({ value: { ...absent, ...input } }, config));
      return dataset;
    }
  };
}
function unknownField(input, name) {
  const path = [{ type: "object", origin: "key", input, key: name.slice(0, 80), value: input[name] }];
  return { input: input[name], message: "no such field", path: [...path] };
}
function withoutUndefined(dataset) {
  const value2 = dataset.value;
  for (const name of Object.keys(value2)) if (value2[name] === void 0) delete value2[name];
  return dataset;
}
function changed(schema, change) {
  return v.pipe(schema, v.transform(change));
}
function ifReadable(schema) {
  return v.exactOptional(v.fallback(schema, void 0));
}
function unlessNull(schema) {
  return v.exactOptional(changed(v.nullish(schema), (value2) => value2 ?? void 0));
}
function isFields(value2) {
  return typeof value2 === "object" && value2 !== null && !Array.isArray(value2);
}
function is2(schema, value2) {
  return v.is(schema, value2);
}

// packages/shared/src/api/spec-schema.ts
var import_node_util = require("node:util");
var v2 = __toESM(require("valibot"), 1);
var DURATION = /^(?=.)(?:(?<hours>\d{1,4})h)?(?:(?<minutes>\d{1,5})m)?(?:(?<seconds>\d{1,6})s)?$/u;
function parseDuration(value2) {
  const { groups } = DURATION.exec(value2) ?? {};
  if (groups === void 0) return void 0;
  const { hours = 0, minutes: minutes2 = 0, seconds = 0 } = groups;
  return ((Number(hours) * 60 + Number(minutes2)) * 60 + Number(seconds)) * 1e3;
}
function formatDuration(ms) {
  const seconds = Math.round(ms / 1e3);
  const parts = { h: Math.floor(seconds / 3600), m: Math.floor(seconds / 60) % 60, s: seconds % 60 };
  const written2 = Object.entries(parts).map(([unit, number6]) => number6 === 0 ? "" : `${number6}${unit}`);
  return written2.join("") || "0s";
}
function inMs(schema) {
  return Object.assign(schema, { unit: "ms" });
}
function duration(min, max) {
  const [minMs, maxMs] = [parseDuration(min), parseDuration(max)];
  if (minMs === void 0 || maxMs === void 0) throw new RangeError(`expected durations, found ${min} and ${max}`);
  const expected = `a duration from ${min} to ${max}, such as 90s or 1h30m`;
  const inRange = (text6) => {
    const ms = parseDuration(text6);
    return ms !== void 0 && ms >= minMs && ms <= maxMs;
  };
  const rule = `size(self) > 0 && self.matches('^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$') && duration(self) >= duration('${min}') && duration(self) <= duration('${max}')`;
  const schema = v2.pipe(
    v2.string(expected),
    v2.check(inRange, expected),
    v2.metadata({ maxLength: 20, "x-kubernetes-validations": [{ rule, message: `must be ${expected}` }] }),
    v2.transform((text6) => parseDuration(text6) ?? 0)
  );
  return Object.assign(inMs(schema), { range: ` From ${min} to ${max}.` });
}
function always(value2) {
  return { default: value2, absent: value2 };
}
function field(schema, text6, values2) {
  const { default: value2, absent } = values2 ?? {};
  const byDefault = value2 === void 0 || Array.isArray(value2) ? "" : ` The default is ${JSON.stringify(value2).replaceAll('"', "")}.`;
  const wrapped = described(schema, `${text6}${schema.range ?? ""}${byDefault}`);
  const read2 = v2.nullish(wrapped, absent ?? (() => void 0));
  return Object.assign(read2, { release: value2 }, "unit" in schema && { unit: schema.unit });
}
function fields(entries2, ...checks3) {
  const rename = (value2) => Object.fromEntries(
    Object.keys(entries2).map((name) => [
      "unit" in (entries2[name] ?? {}) ? `${name}Ms` : name,
      value2[name]
    ])
  );
  const items = [...checks3, v2.transform(rename)];
  return v2.pipe(object2(entries2), ...items);
}
function group(text6, entries2, ...checks3) {
  const read2 = v2.nullish(described(fields(entries2, ...checks3), text6), {});
  return Object.assign(read2, { entries: entries2 });
}
function listOf(item, maxItems, type = "atomic") {
  return v2.pipe(v2.array(item, "a list"), v2.metadata({ maxItems, "x-kubernetes-list-type": type }));
}
function requireThat(key2, expected, isMet, found = (value2) => value2[key2]) {
  const check8 = v2.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed || isMet(dataset.value)) return;
    const { value: value2 } = dataset;
    const path = [{ type: "object", origin: "value", input: value2, key: key2, value: value2[key2] }];
    addIssue({ message: expected, input: found(value2), path: [...path] });
  });
  return check8;
}
function defaultsOf(entries2) {
  return Object.fromEntries(
    Object.entries(entries2).flatMap(([name, schema]) => {
      const one = schema;
      const value2 = one.entries === void 0 ? one.release : defaultsOf(one.entries);
      return value2 === void 0 || isFields(value2) && Object.keys(value2).length === 0 ? [] : [[name, value2]];
    })
  );
}
var MAX_PROBLEMS = 100;
function readSpec(schema, spec) {
  const problems = [];
  for (let rest = spec; ; ) {
    const { success, output, issues } = v2.safeParse(schema, rest, { abortEarly: true });
    if (success) return { value: output, problems };
    problems.push(describeIssue(issues[0], "spec"));
    const path = (issues[0].path ?? []).map(({ key: key2 }) => key2);
    rest = problems.length < MAX_PROBLEMS ? without(rest, path) : {};
  }
}
function without(value2, [key2, ...path]) {
  if (Array.isArray(value2)) return value2.filter((_2, index) => index !== key2);
  if (!isFields(value2) || key2 === void 0) return {};
  const inner = value2[key2];
  const { [key2]: _, ...others } = value2;
  const isNested = path.length > 0 && typeof inner === "object" && inner !== null;
  return isNested ? { ...others, [key2]: without(inner, path) } : others;
}
function problemOfShape(spec) {
  if (spec == null || isFields(spec)) return void 0;
  return `spec: expected an object, found ${Array.isArray(spec) ? "a list" : `a ${typeof spec}`}`;
}
function merged(defaults, given) {
  const set = Object.entries(isFields(given) ? given : {}).filter(([, value2]) => value2 != null);
  const nested = set.map(([name, value2]) => {
    const fallback4 = defaults[name];
    return [name, isFields(fallback4) && isFields(value2) ? merged(fallback4, value2) : value2];
  });
  return { ...defaults, ...Object.fromEntries(nested) };
}
function differences(before, after, field2 = "") {
  if (!isFields(before) || !isFields(after)) {
    return (0, import_node_util.isDeepStrictEqual)(before, after) ? [] : [{ field: field2, before, after }];
  }
  const names = [.../* @__PURE__ */ new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return names.flatMap((name) => differences(before[name], after[name], field2 === "" ? name : `${field2}.${name}`));
}

// packages/shared/src/api/config-values.ts
var DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
var NODES = 'a whole number from 1, such as 2, or a percentage from "1%" to "100%"';
var nodeLimit = v3.pipe(
  v3.unknown(),
  v3.check((value2) => limitOf(value2) !== void 0, NODES),
  v3.metadata({
    "x-kubernetes-int-or-string": true,
    "x-kubernetes-validations": [
      {
        rule: "type(self) == int ? self >= 1 : string(self).matches('^([1-9][0-9]?|100)%$')",
        message: 'must be a whole number of at least 1 (such as 3) or a percentage from "1%" to "100%" (in quotes); to stop updates, set spec.paused'
      }
    ]
  }),
  v3.transform((value2) => limitOf(value2) ?? { nodes: 1 })
);
function limitOf(value2) {
  if (typeof value2 === "number") return Number.isSafeInteger(value2) && value2 >= 1 ? { nodes: value2 } : void 0;
  const percent = typeof value2 === "string" ? /^([1-9]\d?|100)%$/u.exec(value2)?.[1] : void 0;
  return percent === void 0 ? void 0 : { percent: Number(percent) };
}
var BUDGET = 'a whole number from 0, such as 1, or a percentage from "1%" to "100%"';
var failureLimit = v3.pipe(
  v3.unknown(),
  v3.check((value2) => value2 === 0 || limitOf(value2) !== void 0, BUDGET),
  v3.metadata({
    "x-kubernetes-int-or-string": true,
    "x-kubernetes-validations": [
      {
        rule: "type(self) == int ? self >= 0 : string(self).matches('^([1-9][0-9]?|100)%$')",
        message: 'must be a whole number of at least 0 (such as 1) or a percentage from "1%" to "100%" (in quotes)'
      }
    ]
  }),
  v3.transform((value2) => limitOf(value2) ?? { nodes: 0 })
);
var BAD_CONDITION = "the type of a condition, such as DiskPressure, or with its bad status, such as KernelReady=False, at most 100 characters";
var badCondition = v3.pipe(
  v3.string(BAD_CONDITION),
  v3.regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*(=(True|False|Unknown))?$/, BAD_CONDITION),
  v3.maxLength(100, BAD_CONDITION),
  v3.transform((text6) => text6.replace(/=True$/u, ""))
);
var NAMESPACE2 = "the name of a namespace, such as kube-system";
var namespaceName = v3.pipe(
  v3.string(NAMESPACE2),
  v3.regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, NAMESPACE2),
  v3.maxLength(63, NAMESPACE2)
);
var SHORT_NAME = "lower-case letters, digits and -, beginning and ending with a letter or digit, at most 30 characters";
var shortName = v3.pipe(
  v3.string(SHORT_NAME),
  v3.regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, SHORT_NAME),
  v3.maxLength(30, SHORT_NAME)
);
var NUMBER = "a whole number from 1";
var numberOfNodes = v3.pipe(v3.number(NUMBER), v3.integer(NUMBER), v3.minValue(1, NUMBER));
var reason = (maxLength8) => v3.pipe(
  v3.string("a text"),
  v3.metadata({ minLength: 1, maxLength: maxLength8 }),
  v3.transform((value2) => value2 === "" ? void 0 : shorten(value2, maxLength8))
);
var TIME2 = /^(?<date>\d{4}-\d{2}-\d{2})T(?!24)\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2})$/u;
var WHEN = "a date and time with an offset from UTC, such as 2026-12-20T00:00:00Z";
var when = inMs(
  v3.pipe(
    v3.string(WHEN),
    v3.check((value2) => timeOf2(value2) !== void 0, WHEN),
    v3.metadata({ maxLength: 32 }),
    v3.transform((value2) => timeOf2(value2) ?? 0)
  )
);
function timeOf2(value2) {
  const date = TIME2.exec(value2)?.groups?.["date"];
  const midnight = parseTime(date && `${date}T00:00:00Z`);
  const isDay = midnight !== void 0 && rfc3339(midnight).slice(0, 10) === date;
  return isDay ? parseTime(value2) : void 0;
}
var ZONE = "an IANA time zone such as Europe/Berlin or UTC";
var timeZone = v3.pipe(
  v3.string(ZONE),
  // Intl takes offsets such as +01:00, too, which know no daylight saving.
  v3.check((value2) => /^[A-Za-z]/u.test(value2), ZONE),
  v3.metadata({ maxLength: 64 })
);
var window = fields({
  schedule: described(
    v3.string("five cron fields, such as 0 2 * * SAT"),
    "When it opens, as five cron fields (minute, hour, day of month, month, day of week) in the time zone above, such as 0 2 * * SAT.",
    { maxLength: 100 }
  ),
  duration: inMs(described(duration("1m", "168h"), "How long it stays open, such as 4h or 1h30m. From 1m to 168h.")),
  days: field(
    listOf(oneOf(DAYS), 7, "set"),
    "Weekdays on which it may open, in the time zone above. Without any, every day that the schedule names.",
    { absent: [] }
  )
});
var blackout = fields(
  {
    from: inMs(described(when, "When it starts, with its offset from UTC, such as 2026-12-20T00:00:00Z.")),
    to: inMs(described(when, "When it ends, later than from.")),
    reason: field(reason(256), "Why, shown on every node that waits for its end.")
  },
  requireThat(
    "to",
    "a time later than from",
    ({ from, to }) => from < to,
    ({ to }) => rfc3339(to)
  )
);

// packages/shared/src/api/label-selector.ts
var v4 = __toESM(require("valibot"), 1);
var KEY = /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/u;
var VALUE = /^(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?$/u;
var LABEL_KEY = "the key of a label, such as pool or topology.kubernetes.io/zone";
var LABEL_VALUE = "the value of a label";
var isLabelKey = (text6) => KEY.test(text6) && text6.length <= 317;
var isLabelValue = (text6) => VALUE.test(text6) && text6.length <= 63;
var key = textThat(isLabelKey, 317, LABEL_KEY);
var value = textThat(isLabelValue, 63, LABEL_VALUE);
function areLabels(labels) {
  return isFields(labels) && Object.entries(labels).every(([name, one]) => KEY.test(name) && v4.is(value, one));
}
function selectorOf({ what, maxLabels, maxRequirements, maxValues }, ...checks3) {
  const entries2 = {
    matchLabels: field(
      v4.pipe(
        v4.unknown(),
        v4.check(areLabels, "labels with their values, such as pool: web"),
        v4.metadata({ type: "object", maxProperties: maxLabels })
      ),
      `Labels that ${what} must have.`,
      { absent: {} }
    ),
    matchExpressions: field(
      listOf(
        fields(
          {
            key: described(key, "The key of the label."),
            operator: described(oneOf(["In", "NotIn", "Exists", "DoesNotExist"]), "What is required of its value."),
            values: field(listOf(value, maxValues), "The values for In and NotIn.", { absent: [] })
          },
          requireThat(
            "values",
            "values for In and NotIn, and none for Exists and DoesNotExist",
            ({ operator, values: values2 }) => operator.endsWith("In") === values2.length > 0
          )
        ),
        maxRequirements
      ),
      "Requirements, all of which must be met.",
      { absent: [] }
    )
  };
  return fields(entries2, ...checks3);
}
var labelSelector = selectorOf({ what: "a node", maxLabels: 50, maxRequirements: 50, maxValues: 100 });
var SMALL_SELECTOR = { maxLabels: 10, maxRequirements: 5, maxValues: 10 };
var podSelector = selectorOf(
  { what: "a pod", ...SMALL_SELECTOR },
  requireThat(
    "matchLabels",
    "at least one label that is required, in matchLabels or with In or Exists",
    (selector) => requiredKeys(selector).length > 0
  )
);
function selects(selector, labels) {
  if (selector == null) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  for (const key2 in matchLabels) if (labels[key2] !== matchLabels[key2]) return false;
  return matchExpressions.every((requirement) => matches(requirement, labels));
}
var MAX_READ = 8;
var sets = /* @__PURE__ */ new WeakMap();
function isAmong(value2, values2) {
  if (values2.length <= MAX_READ) return values2.includes(value2);
  const known = sets.get(values2) ?? new Set(values2);
  sets.set(values2, known);
  return known.has(value2);
}
function matches({ key: key2, operator, values: values2 = [] }, labels) {
  const value2 = labels[key2];
  switch (operator) {
    case "In":
      return value2 !== void 0 && isAmong(value2, values2);
    case "NotIn":
      return value2 === void 0 || !isAmong(value2, values2);
    case "DoesNotExist":
      return value2 === void 0;
    case "Exists":
      return value2 !== void 0;
    default:
      return true;
  }
}
function selectorText({ matchLabels = {}, matchExpressions = [] }) {
  const labels = Object.entries(matchLabels).map(([name, one]) => `${name}=${one}`);
  return [...labels, ...matchExpressions.map(requirementText)].join(",");
}
function requirementText({ key: name, operator, values: values2 = [] }) {
  if (operator === "Exists") return name;
  if (operator === "DoesNotExist") return `!${name}`;
  return `${name} ${operator === "In" ? "in" : "notin"} (${values2.join(",")})`;
}
function requiredKeys({ matchLabels = {}, matchExpressions = [] }) {
  const required = matchExpressions.filter(({ operator }) => operator === "In" || operator === "Exists");
  return [...Object.keys(matchLabels), ...required.map((one) => one.key)];
}
function keysOf({ matchLabels = {}, matchExpressions = [] }) {
  return [...Object.keys(matchLabels), ...matchExpressions.map(({ key: key2 }) => key2)];
}
var NODE_RESTRICTION = "node-restriction.kubernetes.io/";
var PROTECTED_PREFIXES = [NODE_RESTRICTION, "node-role.kubernetes.io/"];
function isProtectedLabel(key2) {
  return PROTECTED_PREFIXES.some((prefix) => key2.startsWith(prefix));
}
function isProtectedSelector(selector) {
  return requiredKeys(selector).length > 0 && keysOf(selector).every(isProtectedLabel);
}

// packages/shared/src/api/config-quorums.ts
var MAX_QUORUMS = 20;
var MAX_MEMBERS = 99;
var MAX_TOLERATED = 48;
var nodeSelector = selectorOf(
  { what: "a node", ...SMALL_SELECTOR },
  requireThat(
    "matchLabels",
    `only keys that kubelets cannot set (${PROTECTED_PREFIXES.join(" or ")}), and at least one that a node must have`,
    isProtectedSelector
  )
);
function majorityOf(members2) {
  return Math.floor(members2 / 2) + 1;
}
var quorum = fields(
  {
    name: described(shortName, "The name of the set, once in this list."),
    namespace: described(namespaceName, "The namespace of its pods."),
    podSelector: described(podSelector, "Its pods, the members. It requires at least one label."),
    nodeSelector: field(
      nodeSelector,
      "For static pods only: the nodes on which they count, one on each. Only labels that kubelets cannot set on their Nodes are allowed, which are those of node-role.kubernetes.io and node-restriction.kubernetes.io. Without it, no static pod counts, and a node with one that podSelector selects waits. Other pods count on every node."
    ),
    members: described(
      whole(1, MAX_MEMBERS),
      `How many members the set has when it is complete, from 1 to ${MAX_MEMBERS}. When more pods are found, these count.`
    ),
    tolerate: field(
      whole(0, MAX_TOLERATED),
      "How many other members may be away when a node with a member starts or is drained. With the member on that node away as well, a majority must be left.",
      always(0)
    ),
    downtime: field(
      oneOf(["Refused", "Allowed"]),
      "For sets of one or two members, of which no majority is left without one. Refused: their nodes wait. Allowed: they update, one at a time, and the set does not work meanwhile.",
      always("Refused")
    ),
    last: field(
      podSelector,
      "Which members go after the others, such as the leader, by their labels: their nodes wait for the nodes of other members that can update."
    ),
    checks: field(
      listOf(shortName, 10, "set"),
      "Names of queries and alerts of health.checks, at most 10, that also have to pass before a node with a member starts or is drained, whatever their phase is.",
      always([])
    )
  },
  requireThat(
    "tolerate",
    "so few that a majority of members is left with one more away",
    ({ members: members2, tolerate }) => tolerate === 0 || members2 - tolerate - 1 >= majorityOf(members2)
  ),
  requireThat(
    "downtime",
    "Refused for sets of more than two members",
    ({ members: members2, downtime }) => downtime === "Refused" || members2 <= 2
  )
);
function namedOnce() {
  return v5.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const input = dataset.value;
    const key2 = input.findIndex(({ name }, index) => input.findIndex((one) => one.name === name) < index);
    if (key2 < 0) return;
    const path = [{ type: "array", origin: "value", input: [...input], key: key2, value: input[key2] }];
    addIssue({ message: "a name that no other set has", input: input[key2]?.name, path: [...path] });
  });
}
var quorums = field(
  v5.pipe(
    listOf(quorum, MAX_QUORUMS),
    namedOnce(),
    v5.metadata({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] })
  ),
  `Sets of pods, at most ${MAX_QUORUMS}, that work while a majority of their members does, such as etcd. A node with a member starts, and is drained, only while enough other members are there, and its update has succeeded only when its own member is Ready again. A member is away when it is not Ready, being deleted or missing, or on a node that is not Ready, being deleted or updating. Members are counted, not asked: checks and hooks do that.`,
  always([])
);
var QUORUM_RULES = [
  requireThat(
    "quorums",
    "checks that are queries or alerts of health.checks",
    ({ quorums: all, health }) => all.every(
      ({ checks: checks3 }) => checks3.every((name) => health.checks.some((one) => one.name === name && one.job === void 0))
    ),
    ({ quorums: all }) => all.flatMap(({ checks: checks3 }) => checks3).join(", ")
  ),
  requireThat(
    "health",
    "in checks[].when at least one phase, except for the checks of quorums",
    ({ quorums: all, health }) => health.checks.every(({ name, when: when2 }) => when2.length > 0 || all.some(({ checks: checks3 }) => checks3.includes(name))),
    ({ health }) => health.checks.flatMap(({ name, when: when2 }) => when2.length === 0 ? [name] : []).join(", ")
  ),
  requireThat(
    "hooks",
    "in before[].quorum the name of one of quorums",
    ({ quorums: all, hooks }) => hooks.before.every(({ quorum: name }) => name === void 0 || all.some((one) => one.name === name)),
    ({ hooks }) => hooks.before.flatMap(({ quorum: name }) => name ?? []).join(", ")
  )
];

// packages/shared/src/api/deadlines.ts
var SECOND = 1e3;
var MINUTE = 60 * SECOND;
var CLOCK_TOLERANCE_MS = 5 * MINUTE;
function isClockWrong(skewMs = 0) {
  return Math.abs(skewMs) > CLOCK_TOLERANCE_MS;
}
var AUTHENTICATION_LIMIT_MS = 10 * SECOND;
var DRAIN_PASS_LIMIT_MS = 10 * SECOND;
var DRAIN_ANSWER_LIMIT_MS = AUTHENTICATION_LIMIT_MS + DRAIN_PASS_LIMIT_MS;
var DRAIN_CALL_LIMIT_MS = DRAIN_ANSWER_LIMIT_MS + 10 * SECOND;
var WRITE_LIMIT_MS = 15 * SECOND;
var RESTORE_WRITE_LIMIT_MS = 35 * SECOND;
var RESTORE_ANSWER_LIMIT_MS = RESTORE_WRITE_LIMIT_MS + 5 * SECOND;
var RESTORE_CALL_LIMIT_MS = RESTORE_ANSWER_LIMIT_MS + 2 * SECOND;
var ANSWER_LIMIT_MS = WRITE_LIMIT_MS + 2 * SECOND;
var CALL_LIMIT_MS = ANSWER_LIMIT_MS + 2 * SECOND;
var STREAM_HEARTBEAT_MS = 10 * SECOND;
var STREAM_INACTIVITY_MS = 3.5 * STREAM_HEARTBEAT_MS;
var LEASE_LIMITS = {
  leaseDurationMs: 16 * SECOND,
  renewDeadlineMs: 12 * SECOND,
  retryPeriodMs: 0.75 * SECOND
};
var WATCH_IDLE_LIMIT_MS = 100 * SECOND;
var WATCH_CATCH_UP_LIMIT_MS = 10 * SECOND;
var WATCH_STALE_MS = WATCH_IDLE_LIMIT_MS + WATCH_CATCH_UP_LIMIT_MS + 10 * SECOND;
var EXCLUSION_MAX_MS = 60 * MINUTE;
var DRAIN_TIMEOUT_MAX_MS = 24 * 60 * MINUTE;
var FORCE_LIMIT_MS = 70 * MINUTE;
var BUDGET_HOLD_MS = 5 * MINUTE;
var DRAIN_OVER_LIMIT_MS = 2 * MINUTE;
var REBOOT_REQUEST_LIMIT_MS = MINUTE;
var REBOOT_CALL_LIMIT_MS = 30 * SECOND;
var REBOOT_INHIBIT_MAX_MS = 5 * MINUTE;
var REBOOT_PENDING_LIMIT_MS = REBOOT_REQUEST_LIMIT_MS + REBOOT_CALL_LIMIT_MS + REBOOT_INHIBIT_MAX_MS + 30 * SECOND;
var REBOOT_TIMEOUT_MIN_MS = REBOOT_PENDING_LIMIT_MS + REBOOT_REQUEST_LIMIT_MS;
var STEP_LIMITS_MS = {
  Stage: 45 * MINUTE,
  /** A backstop: the apiserver ends a drain earlier, by the configuration's limit. */
  Drain: EXCLUSION_MAX_MS + DRAIN_TIMEOUT_MAX_MS + FORCE_LIMIT_MS + 110 * MINUTE,
  Activate: 10 * MINUTE,
  Reboot: 15 * MINUTE,
  /** After a successful reboot: no deadline of the controller ends it. */
  Restore: 15 * MINUTE
};
var REPORT_SLACK_MS = 5 * MINUTE;
var HOST_SETTINGS_LIMIT_MS = 4 * MINUTE;
var IDLE_DEADLINE_MS = HOST_SETTINGS_LIMIT_MS + MINUTE;
function stageDeadlineMs(stageMs) {
  return stageMs + REPORT_SLACK_MS;
}
function rebootDeadlineMs(drainMs, rebootMs) {
  return drainMs + STEP_LIMITS_MS.Activate + rebootMs + REPORT_SLACK_MS;
}

// packages/shared/src/api/config-drain.ts
var POD_POLICIES = ["Evict", "Block"];
var DRAIN = {
  drain: group(
    "How a node is drained before its reboot. Pods are evicted as kubectl drain does, within their disruption budgets: those of a lower priority first, then those without volumes, then those with volumes one by one. A pod with the label or annotation brupop.bottlerocket.aws/drain=skip stays, and one with the value last is evicted after all others.",
    {
      timeout: field(
        duration("1m", formatDuration(DRAIN_TIMEOUT_MAX_MS)),
        "How long a drain may take from its first pass.",
        always("30m")
      ),
      onTimeout: field(
        oneOf(["Abort", "Force"]),
        "What happens after the timeout. Abort: the node is uncordoned and tried again after a wait that doubles. Force: the pods that are left are deleted past their disruption budgets, with their grace period, which takes up to 70 minutes more, and pods that do not end even then are left behind. Nothing is deleted while emptyDirPods or unmanagedPods block the drain, or without the right to delete pods (value drain.allowForce of the chart).",
        always("Abort")
      ),
      blockedBudgets: field(
        oneOf(["TryLast", "Wait"]),
        "What happens to a node while a disruption budget allows no disruption although all of its pods are healthy. Some operators open such a budget when the node is cordoned. TryLast: after all nodes that can be drained, the node is cordoned for up to 5 minutes, and no longer than timeout, and only the eviction of these pods is tried. If their budgets do not allow it, nothing else is evicted, and the node is uncordoned and tried again after a wait that doubles from 1 to 24 hours. Pods that are to be evicted last, also the instance managers of Longhorn, do not hold the others back: their drain has the whole timeout. Wait: it is not cordoned. A budget that can never allow one (maxUnavailable 0 or 0%, minAvailable 100%) always waits.",
        { default: "TryLast", absent: "Wait" }
      ),
      emptyDirPods: field(
        oneOf(POD_POLICIES),
        "Pods with an emptyDir volume, whose data is lost with them. Evict: they are evicted. Block: their node is not updated while they are on it.",
        always("Evict")
      ),
      unmanagedPods: field(
        oneOf(POD_POLICIES),
        "Pods without a controller, which nothing recreates. Evict: they are evicted. Block: their node is not updated while they are on it.",
        always("Evict")
      ),
      maxGracePeriod: field(
        duration("1s", "24h"),
        "The longest grace period of an evicted pod. By default each pod has its own grace period."
      ),
      volumeDetachTimeout: field(
        duration("0s", "1h"),
        "How long the volumes of an evicted pod may take to detach from the node before the next pod with volumes is evicted all the same.",
        always("2m")
      ),
      replacementTimeout: field(
        duration("0s", "1h"),
        "How long the next pod with volumes waits until the pod that replaces an evicted one of a StatefulSet is ready on another node. 0s: it does not wait.",
        always("2m")
      ),
      taintWaitingNodes: field(
        flag(),
        "True gives nodes that wait for their update, and those that are updating, the taint brupop.bottlerocket.aws/update-pending with the effect PreferNoSchedule, so that evicted pods prefer nodes that need no drain.",
        always(false)
      ),
      startupTaint: field(
        flag(),
        "True: a node has the taint brupop.bottlerocket.aws/starting with the effect NoSchedule while it is drained and rebooted, so that no other pods start before its DaemonSets. The controller removes it after the reboot when the pods of DaemonSets on the node are Ready; with health.daemonSets Ignored, when the Node is Ready. DaemonSets need a toleration for it if their pods may be created in that time.",
        always(false)
      )
    }
  ),
  loadBalancer: group("How a node leaves external load balancers before it is drained.", {
    exclusion: field(
      duration("0s", formatDuration(EXCLUSION_MAX_MS)),
      "How long load balancers have to remove the node: it gets the label node.kubernetes.io/exclude-from-external-load-balancers, and its first pod is evicted this much later. Choose their deregistration delay or health check time. 0s: the node gets no label.",
      always("0s")
    )
  })
};

// packages/shared/src/api/config-notifications.ts
var v6 = __toESM(require("valibot"), 1);
var MAX_RECEIVERS = 5;
var MAX_RECORDED_EVENTS = 100;
var NOTIFICATION_FORMATS = ["JSON", "Slack"];
var NOTIFICATION_EVENTS = ["Frozen", "Failed", "Held", "Stuck", "WaitsForApproval", "Finished"];
function formatted(expected, pattern, maxLength8) {
  return v6.pipe(v6.string(expected), v6.metadata({ pattern, maxLength: maxLength8 }));
}
var RULES = [
  {
    rule: "self.format == 'JSON' || !has(self.address)",
    message: "must not be set with format Slack: such an address is a secret, so put it into the key address of the Secret",
    fieldPath: ".address"
  },
  { rule: "has(self.address) || has(self.secretName)", message: "must have address or secretName" },
  {
    rule: "!has(self.address) || self.address.startsWith('https://') || (has(self.allowHTTP) && self.allowHTTP)",
    message: "must begin with https:// unless allowHTTP is true",
    fieldPath: ".address"
  }
];
var receiver = v6.pipe(
  fields({
    name: described(shortName, "The name of the receiver, once in this list."),
    format: described(
      oneOf(NOTIFICATION_FORMATS),
      "JSON: a document with a fixed schema. Slack: an incoming webhook of Slack, or of another service that takes its format."
    ),
    events: described(
      v6.pipe(
        listOf(oneOf(NOTIFICATION_EVENTS), NOTIFICATION_EVENTS.length, "set"),
        v6.minLength(1, "at least one event")
      ),
      "What it is notified of. Frozen: too many nodes failed with a version. Failed: a node failed with a version. Held: workloads fail on a version. Stuck: a node missed a deadline, did not return, or the rollout is late. WaitsForApproval: a version waits for its approval. Finished: no node needs an update any more.",
      { minItems: 1 }
    ),
    address: field(
      formatted("an address such as https://events.example.com/brupop", "^https?://[^\\s/@]+(/\\S*)?$", 2048),
      "The address that notifications are posted to, if it is no secret. Users and passwords belong in the Secret."
    ),
    secretName: field(
      formatted("the name of a Secret", "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", 253),
      "A Secret in the operator's namespace, which the chart's value notifications.secrets has to name as well. Its keys: address; token (bearer), or username and password; headers, one a line; ca.crt, the authorities of the server. Each may be absent."
    ),
    allowHTTP: field(flag(), "True: the address may begin with http://. False is the default.", { absent: false }),
    cluster: field(
      v6.pipe(
        v6.string("a text"),
        v6.metadata({ minLength: 1, maxLength: 100, pattern: "^[^\\p{Cc}\\p{Cf}\\p{Co}\\p{Zl}\\p{Zp}]*$" })
      ),
      "The name of this cluster in notifications, for a receiver of several ones."
    )
  }),
  v6.metadata({ "x-kubernetes-validations": RULES })
);
var byName = { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] };
var notifications = field(
  v6.pipe(listOf(receiver, MAX_RECEIVERS), v6.metadata(byName)),
  `Who is notified, at most ${MAX_RECEIVERS} receivers. Each event is sent once to each, and retried for an hour. Updates never wait for a notification, and a receiver that does not work stops none.`,
  always([])
);
var NOTIFICATIONS_STATUS = optional(
  object2({
    rolloutStartTime: optional(
      time(),
      "Since when nodes have needed an update. Absent while none does, and if no receiver asks for Finished."
    ),
    rolloutEndTime: optional(time(), "When the latest rollout ended. Absent an hour later."),
    receivers: described(
      v6.array(
        object2({
          name: described(text(30), "The name of the receiver in spec.notifications."),
          state: described(
            text(64),
            "Ready: its Secret and address are as they should be, and the latest notification was accepted. NotReady: they are not, or it was not. Unknown: not checked yet."
          ),
          since: described(time(), "Since when it has this state."),
          message: optional(text(500), "Why it is not Ready."),
          lastSentTime: optional(time(), "When it last accepted a notification."),
          sent: optional(
            v6.array(text(16)),
            "The IDs of events that it has accepted, or that were given up. Kept while they last, so that a new leader does not repeat them.",
            { maxItems: MAX_RECORDED_EVENTS, "x-kubernetes-list-type": "atomic" }
          )
        })
      ),
      "The receivers, in the order of spec.notifications.",
      { maxItems: MAX_RECEIVERS, "x-kubernetes-list-type": "atomic" }
    )
  }),
  "What was sent to the receivers of spec.notifications. Absent without any."
);

// packages/shared/src/api/config-recovery.ts
var v7 = __toESM(require("valibot"), 1);
var RECOVERY_KINDS = ["Node", "Service"];
var MAX_RECOVERIES = 50;
var MAX_RECORDED_PODS = 100;
var MAX_SERVICES = 20;
var SERVICE = "the name of a Service, such as postgres";
var serviceName = v7.pipe(
  v7.string(SERVICE),
  v7.regex(/^[a-z]([-a-z0-9]*[a-z0-9])?$/, SERVICE),
  v7.maxLength(63, SERVICE)
);
var service = fields({
  name: described(shortName, "The name of the entry, once in this list."),
  namespace: described(
    namespaceName,
    "The namespace of the Service and of its pods. The chart's value recovery.namespaces has to have it as well, which grants the rights; otherwise the entry is refused."
  ),
  service: described(serviceName, "The name of the Service."),
  podSelectors: described(
    v7.pipe(listOf(podSelector, 5), v7.minLength(1, "at least one selector")),
    "Which pods need the Service, each by at least one label that it must have, at most 5: those that any of them selects.",
    { minItems: 1 }
  )
});
var recovery = group(
  "Pods that wait in CrashLoopBackOff although what they need has recovered. Kubelet restarts them up to five minutes later; instead, they are evicted, so that their controller creates new ones at once, each pod once and within its disruption budgets. Pods without a controller, and with the label or annotation brupop.bottlerocket.aws/drain=skip, are left.",
  {
    updatedNodes: field(
      oneOf(["Leave", "Restart"]),
      "Restart: when the DaemonSets of a node are Ready again after its update, pods on it that wait in CrashLoopBackOff are evicted, in the namespaces of the chart's value recovery.namespaces. Leave: they are not.",
      always("Leave")
    ),
    services: field(
      v7.pipe(
        listOf(service, MAX_SERVICES),
        v7.metadata({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] })
      ),
      `Services, at most ${MAX_SERVICES}. When one had no ready endpoint and has one again, pods that need it and wait in CrashLoopBackOff are evicted.`,
      always([])
    ),
    watchFor: field(
      duration("30s", "30m"),
      "How long pods are evicted after a recovery. A further recovery of the same Service or node extends it, up to an hour after the first.",
      always("5m")
    ),
    maxPerMinute: field(
      whole(1, 60),
      "How many evictions are requested in a minute, for all recoveries together.",
      always(10)
    )
  }
);

// packages/shared/src/api/config-checks.ts
var v8 = __toESM(require("valibot"), 1);
var OBJECT_NAME = "the name of a CronJob, at most 52 characters";
var cronJob = v8.pipe(
  v8.string(OBJECT_NAME),
  v8.regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, OBJECT_NAME),
  v8.maxLength(52, OBJECT_NAME)
);
function text2(maxLength8) {
  const expected = `a text of 1 to ${maxLength8} characters`;
  return v8.pipe(v8.string(expected), v8.minLength(1, expected), v8.maxLength(maxLength8, expected));
}
var job = fields({
  cronJob: described(
    cronJob,
    "A CronJob in the namespace of the chart's value checks.namespace. Its jobTemplate is the template of the Jobs; suspend it, so that its schedule has no effect."
  )
});
var prometheus = fields({
  query: described(
    text2(2048),
    "A PromQL expression. It passes when the instant query returns a scalar that is not zero, or at least one series and no series whose value is zero, such as sum(rate(http_requests_failed_total[5m])) < bool 1."
  )
});
var alerts = fields({
  filter: described(
    v8.pipe(listOf(text2(256), 10, "set"), v8.minLength(1, "at least one matcher")),
    'Matchers of Alertmanager, such as severity="critical", of which an alert has to match all. The check does not pass while an alert is active that is neither silenced nor inhibited.'
  )
});
var PHASES = ["Before", "After"];
var jobTimeout = field(
  duration("10s", "2h"),
  "How long a Job may take, the start of its pod included, 10m by default.",
  { absent: "10m" }
);
var check5 = fields(
  {
    name: described(shortName, "The name of the check, once in this list."),
    when: described(
      listOf(oneOf(PHASES), 2, "set"),
      "Before: a node is drained only when the check has passed; a query or an alert also keeps nodes from starting. After: the update of a node succeeds only when the check has passed on the new version. Empty only for a query or an alert that quorums[].checks names: it is asked only before a node with a member goes."
    ),
    job: field(job, "A Job, which passes when it completes, once for each node and attempt."),
    prometheus: field(prometheus, "A query of the Prometheus of the chart's value checks.prometheus.url."),
    alerts: field(alerts, "Alerts of the Alertmanager of the chart's value checks.alertmanager.url."),
    timeout: jobTimeout
  },
  requireThat(
    "name",
    "exactly one of job, prometheus and alerts",
    ({ job: job3, prometheus: prometheus2, alerts: alerts2 }) => [job3, prometheus2, alerts2].filter((one) => one !== void 0).length === 1
  )
);
var HOOK = {
  name: described(shortName, "The name of the hook, once in this list."),
  job: described(job, "The Job that is the hook, once for each node and attempt."),
  timeout: jobTimeout,
  onTimeout: field(
    oneOf(["Proceed", "Abort"]),
    "What happens when the Job does not end in time. Abort, the default: the same as when it fails. Proceed: the next one runs.",
    { absent: "Abort" }
  )
};
var hook = fields(HOOK);
var hookBefore = fields({
  ...HOOK,
  quorum: field(
    shortName,
    "The name of one of quorums: the hook runs only for nodes with a member of it. By default it runs for every node."
  )
});
var byName2 = { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] };
function namedList(item) {
  return v8.pipe(listOf(item, 10), v8.metadata(byName2));
}
var checks = field(
  namedList(check5),
  "Checks that you define, at most 10: Jobs, queries of Prometheus, alerts. What cannot be evaluated has not passed. A node whose Job fails before the drain is not drained and tried again later; one whose Job fails after the update has failed with the version.",
  always([])
);
var HOOKS = {
  hooks: group("Jobs that act for a node before its drain and after its update, one after the other.", {
    before: field(
      namedList(hookBefore),
      "Hooks before the drain, at most 10, when the node is staged and all checks have passed. Nothing is evicted until the last one has completed; when one fails, the node is not drained, the hooks after run, and it is tried again later.",
      always([])
    ),
    after: field(
      namedList(hook),
      "Hooks after the update, at most 10, whether it succeeded or not, if the node may have been drained or a hook before it has run. The node keeps its update slot until they have ended. When one fails, the next ones do not run, and an Event says so; the update has not failed for that.",
      always([])
    )
  })
};

// packages/shared/src/api/config-dependents.ts
var v9 = __toESM(require("valibot"), 1);
var DEPENDENT_KINDS = ["Deployment", "StatefulSet"];
var OBJECT = "the name of a Deployment or StatefulSet, at most 253 characters";
var objectName = v9.pipe(
  v9.string(OBJECT),
  v9.regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, OBJECT),
  v9.maxLength(253, OBJECT)
);
function phase(text6, done) {
  return group(text6, {
    level: field(
      whole(0, 100),
      "Its place in the order, 0 by default: those with a lower level go first, and those with the same one go together.",
      { absent: 0 }
    ),
    delay: field(duration("0s", "1h"), "How long it waits after its level has started, 0s by default.", {
      absent: "0s"
    }),
    timeout: field(
      duration("1s", "1h"),
      `The next level starts this long after delay although ${done}, 30s by default.`,
      { absent: "30s" }
    )
  });
}
var dependent = fields({
  name: described(shortName, "The name of the dependent, for messages."),
  namespace: described(namespaceName, "The namespace of the target."),
  kind: described(oneOf(DEPENDENT_KINDS), "The kind of the target."),
  target: described(
    objectName,
    "The name of the target. The chart's value dependents.targets has to have it as well, which grants the right to scale it."
  ),
  optional: field(flag(), "True: a target that does not exist is no problem. False is the default.", { absent: false }),
  scaleDown: phase("How it is scaled to 0.", "pods of it are left"),
  scaleUp: phase("How it is scaled back.", "not all of its pods are Ready")
});
var MAX_DEPENDENTS = 20;
var byTarget = { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["kind", "namespace", "target"] };
var DEPENDENTS = {
  clusterExpiredPercent: field(
    whole(1, 100),
    "The percentage of all Nodes of the cluster, managed or not, whose Leases have to be expired until dependents are scaled to 0: at least 3 Nodes, and not those of one zone alone. Nodes that are updating, being deleted or younger than a minute count only while they renew their Leases. Nodes that had been silent for an hour when the loss began do not count.",
    always(60)
  ),
  dependents: field(
    v9.pipe(listOf(dependent, MAX_DEPENDENTS), v9.metadata(byTarget)),
    "Deployments and StatefulSets that act on silent nodes, such as cluster-autoscaler, at most 20, each target once. They are scaled to 0 while most Nodes of the cluster have lost the control plane, and back to their numbers of replicas afterwards.",
    always([])
  )
};

// packages/shared/src/api/version.ts
var v10 = __toESM(require("valibot"), 1);
var VERSION = /^v?(?<release>(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/u;
var LIMIT = 128;
var EXPECTED = "a semantic version such as 1.21.0, without a leading v";
var RULE = "self.matches('^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')";
var version = v10.pipe(
  textThat((text6) => !text6.startsWith("v") && isVersion(text6), LIMIT, EXPECTED),
  v10.metadata({ "x-kubernetes-validations": [{ rule: RULE, message: `must be ${EXPECTED}` }] })
);
var versionLock = textThat((text6) => text6 === "latest" || isVersion(text6), LIMIT, "a version or latest");
function isVersion(text6) {
  return VERSION.test(text6);
}
function sameVersion(a, b) {
  return a != null && b != null && (a === b || releaseOf(a) === releaseOf(b));
}
function releaseOf(text6) {
  return VERSION.exec(text6)?.groups?.["release"] ?? text6;
}
function isLater(a, b) {
  const [one, other] = [partsOf(a), partsOf(b)];
  if (one === void 0 || other === void 0) return false;
  const at2 = one.numbers.findIndex((number6, i) => number6 !== other.numbers[i]);
  if (at2 < 0) return other.isPreRelease && !one.isPreRelease;
  return (one.numbers[at2] ?? 0) > (other.numbers[at2] ?? 0);
}
function partsOf(text6) {
  if (!isVersion(text6)) return void 0;
  return { numbers: numbersOf(text6), isPreRelease: releaseOf(text6).includes("-") };
}
function numbersOf(text6) {
  const [core = ""] = releaseOf(text6).split("-", 1);
  return core.split(".").map(Number);
}

// packages/shared/src/api/config-safety.ts
var SAFETY = {
  monitoring: group("How a node is watched after its update, while it holds its update slot. A change acts at once.", {
    healthyFor: field(
      duration("0s", "24h"),
      "How long a node must have been healthy after its update, without a break, before the update has succeeded and the next one starts.",
      { default: "30s", absent: "0s" }
    ),
    timeout: field(
      duration("1m", "24h"),
      "How long a node may take to become healthy, beside healthyFor, until it counts as failed. It keeps its update slot.",
      { default: "5m", absent: "30m" }
    )
  }),
  health: group("What makes a node healthy, beside being Ready.", {
    conditions: field(
      listOf(badCondition, 50, "set"),
      "Conditions of the Node that are a problem, at most 50: a type that is one when True, such as those of node-problem-detector, or a type with its bad status, such as KernelReady=False (True, False or Unknown). A node that has one after its update, and did not have it before, is not healthy; unhealthyNodes says when one that has it starts.",
      {
        default: [
          "DiskPressure",
          "MemoryPressure",
          "PIDPressure",
          "NetworkUnavailable",
          "KernelDeadlock",
          "ReadonlyFilesystem"
        ],
        absent: []
      }
    ),
    daemonSets: field(
      oneOf(["Required", "Ignored"]),
      "Required: after its update, a node is healthy when the pods of DaemonSets in trustedNamespaces on it are Ready, except those that were not Ready before its drain, and those with the label or annotation brupop.bottlerocket.aws/health=ignore. Ignored: these pods do not count.",
      { default: "Required", absent: "Ignored" }
    ),
    trustedNamespaces: field(
      listOf(namespaceName, 50, "set"),
      "Namespaces whose DaemonSets count for daemonSets, and whose workloads count as failures for pods, at most 50. That of the operator counts as well. Anyone who may create pods there can stop the updates of the fleet.",
      { default: ["kube-system"], absent: ["kube-system"] }
    ),
    pods: field(
      oneOf(["Required", "Compared", "Ignored"]),
      "Compared: for watchFor after its update, a node is suspect when pods of a workload cannot start on it, crash, or take much longer to become Ready than before, and pods of the same workload were Ready on a node that was drained within the last hour. When a workload fails so on two nodes, no other node starts for an hour in all, or until rollout.resume. A workload in trustedNamespaces also counts as a failure of the node, for rollout.failureBudget. Required: as Compared, all namespaces are trusted, and after its update a node is healthy only when no pod on it fails to start (crashes again and again, or has no image or configuration) or was restarted within monitoring.healthyFor, except pods of a controller whose pods did so before its drain. With Required, anyone who may create pods can freeze a version with pods that crash: use it only where you trust them. Pods with health=ignore never count. Ignored: these pods do not count.",
      { default: "Compared", absent: "Ignored" }
    ),
    watchFor: field(
      duration("0s", "24h"),
      "How long pods are compared after the update of a node, while other nodes start. Its pods are listed once or twice in that time. 0s: they are not compared.",
      { default: "5m", absent: "0s" }
    ),
    podsBefore: field(
      oneOf(["Required", "Prefer", "Ignored"]),
      "What happens to a node that is about to start while a pod on it cannot start, or has not been Ready for podGracePeriod. Prefer: other nodes go first, and the node starts after an hour even so, or after 30 minutes if no such pod is in trustedNamespaces. Required: it does not start meanwhile. Pods without a controller and pods with health=ignore do not count. With unhealthyNodes First or Last, these pods do not count either. With Required, anyone who may create pods can keep nodes from updating: use it only where you trust them. Ignored: these pods do not count.",
      { default: "Prefer", absent: "Ignored" }
    ),
    podGracePeriod: field(
      duration("0s", "24h"),
      "How long a pod may be not Ready before it counts for podsBefore.",
      always("10m")
    ),
    ignoredNamespaces: field(
      listOf(namespaceName, 50, "set"),
      "Namespaces whose pods do not count for podsBefore, daemonSets and pods, at most 50.",
      { default: [], absent: [] }
    ),
    workloads: field(
      oneOf(["Required", "Ignored"]),
      "Required: no node starts an update or is drained while a workload with a pod on it (a ReplicaSet, a StatefulSet or another controller, but no DaemonSet and no Job) has a pod that is not Ready. After the update, the workloads whose pods were evicted, at most 50, must be Ready again; pods that wait to be scheduled do not count then. Pods with health=ignore never count as not Ready. Anyone who may create pods can stop the updates of the fleet: use it only where you trust them. Ignored: only disruption budgets count.",
      always("Ignored")
    ),
    unhealthyNodes: field(
      oneOf(["Wait", "First", "Last"]),
      "When a node with one of the conditions, or with pods that count for podsBefore, starts its update. Wait: not while it has one. First: before all others. Last: after all others. With First and Last, the condition does not count after the update.",
      always("Wait")
    ),
    checks
  }),
  ...HOOKS,
  rollout: group("How a version spreads, and when it stops.", {
    failureBudget: field(
      failureLimit,
      "Nodes that may fail with a version: a number from 0, or a percentage of the managed nodes, rounded down but at least 1 node. When more fail, the version is frozen: no node starts an update to it or to an older version, and none that has only staged it is drained. A node fails when its host cannot activate the version after the drain or refuses the reboot, when it boots the old or a wrong version, when it is not back and healthy in time after its reboot, or when the Job of a check fails then. Other failures before the reboot do not count.",
      always(1)
    ),
    resume: field(
      when,
      "Failures up to this time are accepted, such as 2026-11-23T10:00:00Z: they freeze no version, and a node that missed a deadline, or failed the Job of a check, before it no longer holds its update slot. A time in the future has no effect until then."
    ),
    rollback: field(
      oneOf(["None", "Automatic"]),
      "What happens to a node that runs a new version and was not healthy in time, or failed the Job of a check. None: it stays on that version and keeps its update slot. Automatic: it updates back to its previous version, if its host is still offered that: it is drained and rebooted once more, also outside of windows. A node goes back once, and the failure still counts.",
      always("None")
    ),
    canary: group("Which nodes update to a version before all others.", {
      nodes: field(
        nodeLimit,
        "How many: a number from 1, or a percentage of the managed nodes that canary.nodeSelector selects, without those that joined with the version, rounded down but at least 1 node. The other nodes start when as many have succeeded. With 100% and no canary.nodeSelector no node waits for another.",
        always("100%")
      ),
      nodeSelector: field(labelSelector, "Which nodes may be canaries. By default all managed nodes.")
    }),
    soak: field(
      duration("0s", "720h"),
      "How long the canaries must have been Ready, without one of health.conditions, after the last of them has succeeded and before the other nodes start. When one becomes unhealthy in that time, or a query or an alert of health.checks after the update does not pass, it starts again.",
      always("0s")
    ),
    approval: field(
      oneOf(["NotRequired", "Required"]),
      "Required: the nodes that are no canaries start an update only to approvedVersion. Where every node is a canary, all nodes wait for it.",
      always("NotRequired")
    ),
    approvedVersion: field(version, "The version that a user has approved, such as 1.21.0."),
    progressDeadline: field(
      duration("10m", "8760h"),
      "A rollout is late when no node has succeeded for this long, beside soak; the condition Degraded then says so. Pauses, closed windows and other times in which the configuration lets no node start do not count.",
      { default: "24h" }
    )
  }),
  lostNode: group("What happens when a node does not return from the reboot of its update.", {
    after: field(
      duration("5m", "24h"),
      "How long the kubelet of a node must have been silent after its reboot was requested, until the node counts as lost. The time starts again after a loss of connectivity.",
      always("30m")
    ),
    action: field(
      oneOf(["Report", "OutOfServiceTaint"]),
      "Report: the loss is only shown. OutOfServiceTaint: the Node also gets the taint node.kubernetes.io/out-of-service with the effect NoExecute until it returns, so that Kubernetes deletes the pods that the drain left and moves their volumes. Only for hosts that are certain to be down by then: one that is cut off and still runs would write to volumes that another node has mounted.",
      always("Report")
    )
  }),
  connectivity: group(
    "When most nodes of the fleet have lost the control plane: then no update and no drain starts, and no node that is updating counts as failed. A zone that has lost it stops its own nodes only. It ends by itself, 20 seconds after enough nodes have renewed their Leases, or an hour after they fell silent.",
    {
      nodeMonitorGracePeriod: field(
        duration("10s", "1h"),
        "After which time kube-controller-manager gives a node up: its flag --node-monitor-grace-period, 50s since Kubernetes 1.32 and 40s before. The Lease of a node has expired after three quarters of it.",
        always("50s")
      ),
      expiredPercent: field(
        whole(0, 100),
        "The percentage of the managed nodes, of all or of one zone, whose Leases have to be expired: at least 2 nodes, or 3 of a zone. Nodes that are updating, being deleted, younger than a minute, or silent for more than an hour are not counted. 0: Leases do not matter.",
        always(60)
      ),
      ...DEPENDENTS
    }
  )
};

// packages/shared/src/api/config-spec.ts
var SPEC = {
  paused: field(flag(), "True keeps every node from starting an update.", always(false)),
  pauseMode: field(
    oneOf(["Finish", "Interrupt"]),
    "What a pause does to nodes that are updating. Finish: they finish. Interrupt: the update is cancelled on those whose host was not yet asked to reboot; they are uncordoned, and start again after the pause. Without paused it has no effect.",
    always("Finish")
  ),
  pauseReason: field(
    reason(1024),
    "Why updates are paused, shown on every node that waits for the end of the pause. Without paused it has no effect."
  ),
  maintenance: group(
    "When nodes may start updates. A node whose drain has started finishes its update; a node that has only staged its version waits for the next window.",
    {
      timeZone: field(timeZone, "IANA time zone of the schedules, such as Europe/Berlin.", always("UTC")),
      windows: field(
        listOf(window, 50),
        "Windows in which nodes may start updates, each node only when its whole update is expected to fit. Overlapping or adjacent windows are merged. With none, updates may start at any time.",
        always([])
      ),
      blackouts: field(
        listOf(blackout, 100),
        "Times in which no node starts an update or its drain, also within a window.",
        always([])
      ),
      updateEstimate: field(
        duration("1m", "24h"),
        "How long the update of a node is expected to take until some were measured. After that the 90th percentile of recent updates is used.",
        always("30m")
      ),
      margin: field(
        duration("0s", "24h"),
        "How much longer than expected an update may take before the window closes.",
        always("10m")
      )
    }
  ),
  concurrency: group("How many nodes may be unavailable at once. The strictest limit applies.", {
    maxUpdating: field(
      nodeLimit,
      'Nodes that may be updating at once: a number from 1 (such as 3), or a percentage of the managed nodes from "1%" to "100%", rounded down but at least 1 node.',
      always(1)
    ),
    maxUnavailable: field(
      nodeLimit,
      'Nodes that may be updating or unavailable for any other reason (not Ready, cordoned by another actor, being deleted) at once: a number from 1, or a percentage of the managed nodes from "1%" to "100%", rounded down but at least 1 node. By default other reasons do not count.'
    ),
    maxPerZone: field(
      numberOfNodes,
      "Nodes of one zone (label topology.kubernetes.io/zone; nodes without it are a zone of their own) that may be updating or unavailable for any other reason at once, from 1. By default zones do not count."
    ),
    controlPlane: field(
      oneOf(["OneAtATime", "Ignored"]),
      "OneAtATime: nodes with the label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/etcd (also master and controlplane) update one at a time, and none starts or is drained while another one, managed or not, is not Ready or is being deleted: no disruption budget protects their static pods. Ignored: they count as any other node.",
      { default: "OneAtATime", absent: "OneAtATime" }
    ),
    maxZones: field(
      numberOfNodes,
      "Zones in which nodes may be updating at once, from 1. By default zones do not count."
    )
  }),
  versions: group(
    "Which versions nodes update to.",
    {
      pin: field(
        version,
        "The version for all nodes, newer or older than theirs, such as 1.21.0. It is set as the version lock of the host; when it is removed, the lock of each host becomes latest. By default nodes update to what their host offers."
      ),
      minimumAge: field(
        duration("0s", "8760h"),
        "How long a version must have been available in this cluster before nodes start to update to it, such as 72h. A pinned version does not wait.",
        always("0s")
      ),
      ignoreWaves: field(
        flag(),
        "True makes hosts offer a release at once instead of when its wave starts. False leaves that to the setting of each host.",
        always(false)
      ),
      deny: field(listOf(version, 50, "set"), "Versions that no node updates to, at most 50.", always([]))
    },
    requireThat(
      "pin",
      "a version that is not one of deny",
      ({ pin, deny }) => !deny.some((one) => sameVersion(one, pin))
    )
  ),
  ...DRAIN,
  timeouts: group(
    "How long the steps of an update may take. That of the drain is drain.timeout. A change applies to steps that start after it.",
    {
      stage: field(duration("1m", "24h"), "How long downloading and writing the new version may take.", {
        default: formatDuration(STEP_LIMITS_MS.Stage),
        absent: "45m"
      }),
      reboot: field(
        duration(formatDuration(REBOOT_TIMEOUT_MIN_MS), "24h"),
        "How long it may take from the reboot until the node runs the new version and is uncordoned.",
        { default: formatDuration(STEP_LIMITS_MS.Reboot), absent: "15m" }
      )
    }
  ),
  retry: group(
    "When a node that failed is tried again. Errors that a retry cannot fix wait for a user.",
    {
      backoff: field(
        duration("10s", "24h"),
        "The wait after the first failure; it doubles with each. Transient errors wait one fifth as long.",
        always("5m")
      ),
      maxBackoff: field(duration("10s", "168h"), "The longest wait, not less than backoff.", always("24h")),
      attempts: field(
        whole(1, 100),
        "How often a node is tried with one version before it waits for a user, from 1 to 100.",
        always(10)
      )
    },
    requireThat(
      "maxBackoff",
      "at least backoff",
      ({ backoff: backoff2, maxBackoff }) => maxBackoff >= backoff2,
      ({ maxBackoff }) => formatDuration(maxBackoff)
    )
  ),
  ...SAFETY,
  recovery,
  notifications,
  quorums,
  nodeSelector: field(
    labelSelector,
    "Restricts the managed nodes, beyond the label that makes them so. Nodes that it does not select start no update and are not counted."
  ),
  order: field(
    oneOf(["Name", "Random", "OldestBoot"]),
    "Which node goes first, among those with the same priority (a whole number in the annotation brupop.bottlerocket.aws/priority, 0 without it) and as many failures. Name: by name. Random: in an order that differs for each version. OldestBoot: the node that has been up longest. The node of the leading controller is always the last. Nodes with the annotation brupop.bottlerocket.aws/skip are left out, unless its value is false.",
    always("Name")
  )
};
var OVERRIDES = {
  paused: SPEC.paused,
  pauseMode: SPEC.pauseMode,
  pauseReason: SPEC.pauseReason,
  maintenance: SPEC.maintenance,
  concurrency: SPEC.concurrency,
  versions: SPEC.versions,
  ...DRAIN,
  timeouts: SPEC.timeouts,
  retry: SPEC.retry,
  monitoring: SPEC.monitoring,
  health: SPEC.health,
  hooks: SPEC.hooks,
  rollout: SPEC.rollout,
  order: SPEC.order
};
var specSchema = fields(SPEC, ...QUORUM_RULES);
function readConfigSpec(value2) {
  return readSpec(specSchema, value2);
}
var drainSpec = fields(DRAIN);
function drainSettingsOf({ drain, loadBalancer }) {
  return { ...drain, ...loadBalancer };
}
function readDrainSettings(value2) {
  const { value: read2, problems } = readSpec(drainSpec, value2);
  return { value: drainSettingsOf(read2), problems };
}
var DRAIN_DEFAULTS = readDrainSettings({}).value;
var DEFAULT_SPEC = defaultsOf(SPEC);
function overridden(fleet, given) {
  const spec = inherited(fleet);
  const own2 = Object.fromEntries(
    Object.entries(isFields(given) ? given : {}).filter(([name]) => Object.hasOwn(OVERRIDES, name))
  );
  const both = (group2, list2) => [
    ...new Set([spec, own2].flatMap((from) => listIn(from[group2], list2)))
  ];
  const overriding = merged(spec, own2);
  return merged(overriding, {
    ...quorumsOf(overriding),
    maintenance: { blackouts: both("maintenance", "blackouts") },
    versions: { deny: both("versions", "deny") }
  });
}
function inherited(fleet) {
  const { rollout: rollout2 } = fleet;
  const spec = without2(fleet, ["paused", "pauseMode", "pauseReason"]);
  if (!isFields(rollout2)) return spec;
  const canary = isFields(rollout2["canary"]) ? { canary: without2(rollout2["canary"], ["nodeSelector"]) } : {};
  return { ...spec, rollout: { ...without2(rollout2, ["resume", "approvedVersion"]), ...canary } };
}
function without2(from, names) {
  return Object.fromEntries(Object.entries(from).filter(([name]) => !names.includes(name)));
}
function quorumsOf({ quorums: all, health }) {
  if (!Array.isArray(all)) return {};
  const names = listIn(health, "checks").map((one) => isFields(one) && one["name"]);
  const known = (one) => listIn(one, "checks").filter((name) => names.includes(name));
  return { quorums: all.map((one) => isFields(one) ? { ...one, checks: known(one) } : one) };
}
function listIn(group2, name) {
  const list2 = isFields(group2) ? group2[name] : void 0;
  return Array.isArray(list2) ? list2 : [];
}
function withDefaults(value2) {
  return merged(DEFAULT_SPEC, value2);
}

// packages/shared/src/api/meta.ts
var v11 = __toESM(require("valibot"), 1);
var condition = object2({
  type: described(text(316), "What the condition is about.", { minLength: 1 }),
  status: described(oneOf(["True", "False", "Unknown"]), "Whether the condition is true."),
  reason: described(text(1024), "Why, in one word for programs.", {
    minLength: 1,
    pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
  }),
  message: described(text(32768), "Why, in one sentence for users."),
  lastTransitionTime: described(time(), "When the status last changed."),
  observedGeneration: optional(count64(), "The metadata.generation that the condition is about.")
});
function conditions(description) {
  const keys4 = { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] };
  return optional(v11.array(condition, "a list"), description, keys4);
}
var NOT_SEEN = { default: { observedGeneration: 0 } };
function slimMetadata(metadata13) {
  const { name, namespace = "", uid, resourceVersion, generation, deletionTimestamp } = metadata13;
  return {
    name,
    namespace,
    uid,
    resourceVersion,
    ...generation === void 0 ? {} : { generation },
    ...deletionTimestamp === void 0 ? {} : { deletionTimestamp }
  };
}

// packages/shared/src/api/edits.ts
var v12 = __toESM(require("valibot"), 1);

// packages/shared/src/api/names.ts
var GROUP = "brupop.bottlerocket.aws";
var SHADOW_VERSION = "v2";
var SHADOW_KIND = "BottlerocketShadow";
var CONFIG_KIND = "BrupopConfig";
var CONFIG_NAME = "cluster";
var NODE_GROUP_KIND = "BottlerocketNodeGroup";
var MANAGED_LABEL = "bottlerocket.aws/updater-interface-version";
var MANAGED_LABEL_VALUE = "2.0.0";
var CORDONED_ANNOTATION = `${GROUP}/cordoned`;
var EXCLUDED_ANNOTATION = `${GROUP}/excluded-from-load-balancers`;
var RECORDONED_ANNOTATION = `${GROUP}/recordoned-at`;
var AUTOSCALER_HOLDS_ANNOTATION = `${GROUP}/autoscaler-holds`;
var AUTOSCALER_HOLDS = [
  "cluster-autoscaler.kubernetes.io/scale-down-disabled",
  "karpenter.sh/do-not-disrupt"
];
var STARTUP_TAINT = `${GROUP}/starting`;
var WAITING_TAINT = `${GROUP}/update-pending`;
var OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service";
var OUT_OF_SERVICE_ANNOTATION = `${GROUP}/out-of-service`;
var DRAIN_KEY = `${GROUP}/drain`;
var HEALTH_KEY = `${GROUP}/health`;
var EXCLUSION_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers";
var GROUP_MANAGER_PREFIX = "brupop-group-";
var GROUP_KEYS_ANNOTATION = `${GROUP}/node-group-keys`;
var GROUP_TAINTS_ANNOTATION = `${GROUP}/node-group-taints`;
var NODE_METADATA_FINALIZER = `${GROUP}/node-metadata`;
var RECORD_ANNOTATION = `${GROUP}/record`;
var HISTORY_ANNOTATION = `${GROUP}/history`;
var RETRY_ANNOTATION = `${GROUP}/retry`;
var ABORT_ANNOTATION = `${GROUP}/abort`;
var ABORT_VALUE = "true";
var UPDATE_NOW_ANNOTATION = `${GROUP}/update-now`;
var PAUSED_ANNOTATION = `${GROUP}/paused`;
var CHECK_LABEL = `${GROUP}/check`;
var JOB_OF_ANNOTATION = `${GROUP}/job-of`;
var DEPENDENT_REPLICAS_ANNOTATION = `${GROUP}/dependent-replicas`;
var IGNORE_SCALING_ANNOTATION = `${GROUP}/ignore-scaling`;
var PRIORITY_ANNOTATION = `${GROUP}/priority`;
var SKIP_ANNOTATION = `${GROUP}/skip`;
var ZONE_LABEL = "topology.kubernetes.io/zone";
var COMPONENT_LABEL = `${GROUP}/component`;
var CONTROLLER = "brupop-controller";
var APISERVER = "brupop-apiserver";
var SHADOW_PREFIX = "brs-";
var MAX_NODE_NAME = 253 - SHADOW_PREFIX.length;
function shadowName(node) {
  return `${SHADOW_PREFIX}${node}`;
}

// packages/shared/src/api/edits.ts
var MAX_EDITS = 20;
var MAX_FIELDS = 10;
var MAX_MANAGER = 64;
var MAX_FIELD = 64;
var managed = object2({
  manager: changed(v12.string(), printable),
  time: v12.string(),
  subresource: ifReadable(v12.string()),
  fieldsV1: v12.unknown()
});
function editsOf(metadata13) {
  const { managedFields } = metadata13;
  if (!Array.isArray(managedFields)) return [];
  return managedFields.flatMap((one) => editOf(one) ?? []).toSorted((a, b) => a.time < b.time ? 1 : -1).slice(0, MAX_EDITS);
}
function editOf(raw) {
  const { success, output } = v12.safeParse(managed, raw);
  if (!success || output.manager === CONTROLLER || (output.subresource ?? "") !== "") return void 0;
  const at2 = parseTime(output.time);
  const { "f:spec": spec } = isFields(output.fieldsV1) ? output.fieldsV1 : {};
  if (at2 === void 0 || !isFields(spec)) return void 0;
  const fields2 = pathsOf(spec, 2).toSorted().slice(0, MAX_FIELDS);
  return { manager: truncated(output.manager, MAX_MANAGER), time: rfc3339(at2), fields: fields2 };
}
function pathsOf(fields2, depth) {
  return Object.entries(fields2).flatMap(([key2, below]) => {
    if (!key2.startsWith("f:")) return [];
    const name = key2.slice(2, 2 + MAX_FIELD / 2 - 1);
    const deeper = depth > 1 && isFields(below) ? pathsOf(below, depth - 1) : [];
    return deeper.length === 0 ? [name] : deeper.map((one) => `${name}.${one}`);
  });
}

// packages/shared/src/api/rollouts.ts
var v13 = __toESM(require("valibot"), 1);
var MAX_ROLLOUTS = 20;
var MAX_CHANGES = 10;
var rollout = object2({
  version: described(text(128), "The Bottlerocket version."),
  group: optional(text(63), "The BottlerocketNodeGroup of its nodes. Absent: those without one."),
  startTime: described(time(), "When its first node started."),
  endTime: optional(time(), "Since when no node updates to it or waits for it. Absent while one does."),
  nodes: described(count(), "How many nodes have updated to it since startTime."),
  failures: described(count(), "How many nodes have failed with it since startTime, at most at the same time."),
  changes: optional(
    v13.array(
      object2({
        object: described(text(300), 'What was changed, such as BrupopConfig "cluster".'),
        manager: described(text(MAX_MANAGER), "The field manager that changed it, as metadata.managedFields has it."),
        time: described(time(), "When."),
        fields: described(
          v13.array(text(MAX_FIELD)),
          `Fields of the spec that it has set, such as paused or rollout.approvedVersion, at most ${MAX_FIELDS}.`,
          { maxItems: MAX_FIELDS, "x-kubernetes-list-type": "atomic" }
        )
      })
    ),
    `Who has written the spec of the configuration or of the group meanwhile, the latest first, at most ${MAX_CHANGES}.`,
    { maxItems: MAX_CHANGES, "x-kubernetes-list-type": "atomic" }
  )
});
var ROLLOUTS = {
  rollouts: optional(v13.array(rollout), `The latest rollouts, at most ${MAX_ROLLOUTS}, the latest first.`, {
    maxItems: MAX_ROLLOUTS,
    "x-kubernetes-list-type": "atomic"
  }),
  heldVersions: optional(
    v13.array(
      object2({
        version: described(text(128), "The Bottlerocket version."),
        since: described(time(), "When it was held first. It may be held for an hour from here.")
      })
    ),
    "The versions that have been held because workloads fail on them. The condition Held says whether one is held now.",
    { maxItems: 20, "x-kubernetes-list-type": "atomic" }
  )
};
function readRollouts(found) {
  return Array.isArray(found) ? found.filter((one) => is2(rollout, one)) : [];
}

// packages/shared/src/api/brupop-config.ts
var total = (text6) => described(count(), text6);
var ROLLOUT = {
  nodes: optional(
    object2({
      managed: total(
        "Nodes with the label bottlerocket.aws/updater-interface-version=2.0.0 that spec.nodeSelector selects."
      ),
      upToDate: total("Nodes that run the desired version: the pinned one, or the one that their host offers."),
      updating: total("Nodes that are updating now."),
      waiting: total("Nodes that wait for their update, and nodes that have not reported yet."),
      failed: total("Nodes whose latest attempt failed.")
    }),
    "Counts of the managed nodes."
  ),
  window: optional(
    object2({
      nextOpenTime: optional(time(), "When nodes may start updates next. Absent while they may start."),
      nextCloseTime: optional(time(), "When the open window closes.")
    }),
    "When nodes may start updates. Absent without windows and blackouts."
  ),
  expectedCompletionTime: optional(
    time(),
    "When all nodes that can update are expected to be up to date, within some minutes. Absent if no node needs an update, or if the time is unknown."
  ),
  plan: optional(
    v14.array(
      object2({
        node: described(text(253), "Name of the Node."),
        version: optional(text(128), "Version that it updates to."),
        reason: described(text(128), "Why it waits, as in the condition Progressing of its BottlerocketShadow."),
        expectedTime: optional(time(), "When its update is expected to be complete. Absent if the time is unknown.")
      })
    ),
    "The nodes that update next, in their order, at most 20.",
    { maxItems: 20, "x-kubernetes-list-type": "atomic" }
  )
};
var LANE = {
  frozenVersions: optional(
    v14.array(
      object2({
        version: described(text(128), "The Bottlerocket version."),
        since: described(time(), "When more nodes had failed with it than spec.rollout.failureBudget allows.")
      })
    ),
    "The versions that too many nodes failed with: no update to them or to older versions starts, until spec.rollout.resume is set to a later time.",
    { maxItems: 20, "x-kubernetes-list-type": "atomic" }
  ),
  canaries: optional(
    v14.array(
      object2({
        version: described(text(128), "The Bottlerocket version."),
        since: described(time(), "Since when as many canaries as necessary have updated to it and are healthy.")
      })
    ),
    "The versions whose canaries have succeeded. spec.rollout.soak counts from here.",
    { maxItems: 20, "x-kubernetes-list-type": "atomic" }
  ),
  progress: optional(
    object2({
      lastProgressTime: described(time(), "When the rollout began, or a node last succeeded."),
      countedSeconds: described(
        count(),
        "Seconds since then that count for spec.rollout.progressDeadline, until countedFrom."
      ),
      countedFrom: optional(time(), "Since when time counts. Absent while the configuration lets no node start.")
    }),
    "How long the rollout has made no progress. Absent when no node needs an update."
  )
};
var statusSchema = object2({
  observedGeneration: optional(
    count64(),
    "The latest metadata.generation that the controller has seen; the conditions are about it."
  ),
  confirmedGeneration: optional(
    count64(),
    "The latest metadata.generation that is completely in effect: every node has confirmed it, also those that wait for a window."
  ),
  childrenObservedGeneration: optional(
    count64(),
    "The sum of the metadata.generation of all BottlerocketNodeGroups, as of when all of them were completely in effect."
  ),
  observedDigest: optional(
    text(64),
    "A SHA-256 of the kind, UID and generation of the configuration and of every group, as of when all of them were completely in effect. It changes with every object that is added, removed, replaced or edited."
  ),
  conditions: conditions(
    "The state of the fleet. Ready: the configuration is in use. Reconciling and Stalled, as kstatus reads them: a change of the spec is being applied, and a user is needed. Paused: a user has paused updates. Frozen: no update starts, because a watch is stale or the configuration is invalid, or none to a version that too many nodes failed with. Held: no update to a version starts for a while, because workloads fail on nodes that run it. WindowOpen: the maintenance windows allow updates to start. Progressing: nodes are updating. Degraded: something needs a user. PendingChanges: the next change of the spec will also bring defaults of this release. CertificateReady: agents can trust the certificate of the API servers; absent if users provide it. DependentsAvailable: no dependent is scaled to 0; absent without dependents. RecoveryReady: the recovery that spec.recovery asks for works; absent without it. NotificationsReady: all receivers of spec.notifications accept notifications; absent without any. The reasons of one node are on its BottlerocketShadow."
  ),
  nodes: ROLLOUT.nodes,
  versions: optional(
    v14.array(
      object2({
        version: described(text(128), "The Bottlerocket version."),
        running: total("Managed nodes that run it."),
        offered: total("Managed nodes that run another one and whose host offers it."),
        firstOfferedTime: optional(
          time(),
          "When at least two managed nodes, or the only one, began to run it or to be offered it. spec.versions.minimumAge counts from here. Absent while fewer nodes have it."
        )
      })
    ),
    "The versions that managed nodes run or their hosts offer.",
    { maxItems: 50, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["version"] }
  ),
  ...LANE,
  ...ROLLOUTS,
  failedNodes: optional(
    v14.array(
      object2({
        name: described(text(253), "Name of the Node, which may have been deleted since."),
        version: described(text(128), "Version that it failed with."),
        code: described(
          text(64),
          "An error code of its agent, NotReturned, NotHealthy, CheckFailed or WorkloadsFailed."
        ),
        since: described(time(), "When it failed, or when its deadline passed."),
        deleted: optional(
          flag(),
          "True when the Node does not exist any more or is not managed. The failure counts until all managed nodes run the version, or spec.rollout.resume accepts it."
        ),
        group: optional(
          text(63),
          "Its group, if that has a failureBudget of its own: the failure counts for that, too."
        )
      })
    ),
    "The nodes that failed with a version and have neither succeeded since nor been accepted by spec.rollout.resume, at most 50.",
    { maxItems: 50, "x-kubernetes-list-type": "atomic" }
  ),
  dependents: optional(
    v14.array(
      object2({
        name: optional(text(30), "Its name in spec.connectivity.dependents. Absent when the entry was removed."),
        kind: described(text(64), "The kind of the target."),
        namespace: described(text(63), "The namespace of the target."),
        target: described(text(253), "The name of the target."),
        state: described(
          text(64),
          "Up: as its users scaled it. Down: scaled to 0 by the operator. ScaledByOthers: scaled to 0 by the operator and then by another actor. NotFound, NotAllowed, Failed: its state is unknown."
        ),
        replicas: optional(
          count(),
          "The recorded number of replicas, of one that is Down, or was when it was last read."
        ),
        since: optional(time(), "Since when it is Down, or was when it was last read. Absent otherwise.")
      })
    ),
    "The dependents, and targets whose entry was removed while they were Down.",
    { maxItems: 40, "x-kubernetes-list-type": "atomic" }
  ),
  clusterLostTime: optional(
    time(),
    "Since when most Nodes of the cluster have not renewed their Leases. Absent while they do, and without dependents."
  ),
  recovery: optional(
    v14.array(
      object2({
        kind: described(
          oneOf(RECOVERY_KINDS),
          "What has recovered: the Node after its update, or the Service of an entry of spec.recovery.services."
        ),
        name: described(text(253), "Name of the Node, or of the entry."),
        startTime: described(time(), "When it recovered."),
        endTime: described(time(), "Until when pods that wait in CrashLoopBackOff are evicted."),
        evicted: described(count(), "How many pods were evicted since."),
        pods: optional(
          v14.array(
            object2({
              uid: described(text(64), "The metadata.uid of the pod."),
              time: described(time(), "When its eviction was recorded, right before it was requested.")
            })
          ),
          "The pods of the last minute, and those before that still exist. None of them is evicted again.",
          { maxItems: MAX_RECORDED_PODS, "x-kubernetes-list-type": "atomic" }
        )
      })
    ),
    "What has recovered lately. The leader writes a pod here before it requests its eviction.",
    { maxItems: MAX_RECOVERIES, "x-kubernetes-list-type": "atomic" }
  ),
  notifications: NOTIFICATIONS_STATUS,
  quorums: optional(
    v14.array(
      object2({
        name: described(text(30), "The name of the set in spec.quorums."),
        members: total("Its members: as many as the spec says, or as were found if these are more."),
        ready: optional(
          count(),
          "Those that are Ready, on a node that is neither down nor updating; none if that is not known."
        ),
        message: optional(text(500), "Who is away, or why the members are not known."),
        since: described(time(), "When this was first seen so.")
      })
    ),
    "The sets of spec.quorums, as they were when a node last asked for them: they are not listed while no node waits, starts or is updating that may have a member.",
    { maxItems: MAX_QUORUMS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] }
  ),
  window: ROLLOUT.window,
  updateEstimate: optional(
    text(20),
    "Expected duration of the update of one node, from measured updates, such as 12m30s."
  ),
  expectedCompletionTime: ROLLOUT.expectedCompletionTime,
  plan: ROLLOUT.plan,
  inForce: optional(
    object2({
      generation: described(count64(), "The metadata.generation of the recorded spec."),
      spec: described(
        v14.unknown(),
        "The spec, with all defaults.",
        {
          type: "object",
          "x-kubernetes-map-type": "atomic",
          "x-kubernetes-preserve-unknown-fields": true
        }
      )
    }),
    "The configuration that nodes are updated by, with every default filled in as it was when the spec was last changed. A new release of the operator does not change it."
  )
});
var configSchema = described(
  object2({
    spec: described(
      specSchema,
      "What users want. Null, which is what a server-side apply of an empty spec may leave, means all defaults.",
      { nullable: true }
    ),
    status: optional(statusSchema, "What the controller reports.", NOT_SEEN)
  }),
  "How the Bottlerocket nodes of this cluster are updated. There is one, named cluster. Without it, and for every field left out, the defaults apply. Users write the spec, the controller writes the status."
);
function readBrupopConfig(raw) {
  const { metadata: metadata13, spec, status } = raw;
  const { name, uid, resourceVersion, generation = 0 } = metadata13;
  const edits = editsOf(metadata13);
  return {
    metadata: { name, uid, resourceVersion, generation },
    spec: spec ?? {},
    ...status && { status },
    ...edits.length > 0 && { edits }
  };
}
function inForceOf({ metadata: { generation = 0 }, spec: given, status: reported2 }) {
  const known = reported2?.inForce;
  const isKnown2 = known !== void 0 && known.generation === generation && isFields(known.spec);
  return { generation, spec: isKnown2 ? merged(known.spec, given) : withDefaults(given) };
}

// packages/shared/src/api/node-group.ts
var v16 = __toESM(require("valibot"), 1);

// packages/shared/src/api/node-metadata.ts
var v15 = __toESM(require("valibot"), 1);
var OPEN_DOMAINS = ["node-role.kubernetes.io", "node-restriction.kubernetes.io"];
var RESERVED_DOMAINS = ["kubernetes.io", "k8s.io", "bottlerocket.aws", "karpenter.sh"];
var MAX_ANNOTATION = 4096;
var EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
var VALUE_OF = { labels: LABEL_VALUE, annotations: `a text of at most ${MAX_ANNOTATION} characters` };
function areValues(of) {
  const isValue = of === "labels" ? isLabelValue : (text6) => text6.length <= MAX_ANNOTATION;
  const check8 = v15.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    if (!isFields(dataset.value)) return addIssue({ message: "keys with their values, such as example.com/pool: web" });
    for (const [key2, value2] of Object.entries(dataset.value)) {
      const problem = isLabelKey(key2) ? VALUE_OF[of] : LABEL_KEY;
      if (isLabelKey(key2) && typeof value2 === "string" && isValue(value2)) continue;
      addIssue(at(dataset.value, [key2], problem, isLabelKey(key2) ? value2 : key2));
    }
  });
  const keywords = { type: "object", maxProperties: 32 };
  return v15.pipe(v15.unknown(), check8, v15.metadata(keywords));
}
var taint = fields({
  key: described(
    v15.pipe(v15.string(LABEL_KEY), v15.check(isLabelKey, LABEL_KEY), v15.maxLength(317)),
    "The key of the taint, such as example.com/dedicated."
  ),
  value: field(
    v15.pipe(v15.string(LABEL_VALUE), v15.check(isLabelValue, LABEL_VALUE), v15.maxLength(63)),
    "The value of the taint.",
    {
      absent: ""
    }
  ),
  effect: described(oneOf(EFFECTS), "What the taint does to pods that do not tolerate it.")
});
var DOMAIN = "a domain such as example.com that neither Kubernetes nor the operator owns, or the key of a label, such as pool";
var isDomain = (text6) => isLabelKey(text6) && !isReserved(text6.split("/")[0] ?? "");
var domain = v15.pipe(v15.string(DOMAIN), v15.check(isDomain, DOMAIN), v15.maxLength(317, DOMAIN));
var ruled = v15.rawCheck(({ dataset, addIssue }) => {
  if (!dataset.typed) return;
  const { value: value2 } = dataset;
  const { labels, annotations, taints, domains, confirmNoExecute } = value2;
  const keys4 = [
    ...Object.keys(labels).map((key2) => ["labels", key2]),
    ...Object.keys(annotations).map((key2) => ["annotations", key2]),
    ...taints.map(({ key: key2 }) => ["taints", key2])
  ];
  for (const [name, key2] of keys4) {
    const expected = expectedOf(key2, domains);
    if (expected !== void 0) addIssue(at(value2, [name], expected, key2));
  }
  const ids = taints.map(taintId);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== void 0) addIssue(at(value2, ["taints"], "one taint of each key and effect", twice));
  const confirmed = confirmNoExecute || !taints.some(({ effect }) => effect === "NoExecute");
  if (!confirmed) {
    addIssue(
      at(value2, ["confirmNoExecute"], "true, because a taint has the effect NoExecute, which evicts pods", false)
    );
  }
});
function at(value2, path, message, input) {
  const items = path.map((key2) => ({ type: "object", origin: "value", input: value2, key: key2, value: input }));
  return { message, input, path: [...items] };
}
function expectedOf(key2, domains) {
  const [prefix = ""] = key2.includes("/") ? key2.split("/") : [""];
  if (OPEN_DOMAINS.includes(prefix)) return void 0;
  if (isReserved(prefix))
    return `a key that neither Kubernetes nor the operator owns, or one of the domains ${OPEN_DOMAINS.join(" and ")}`;
  if (domains.some((one) => one === prefix || one === key2)) return void 0;
  return `a key of a domain in spec.nodeMetadata.domains, or of ${OPEN_DOMAINS.join(" and ")}`;
}
function isReserved(domain2) {
  return RESERVED_DOMAINS.some((one) => domain2 === one || domain2.endsWith(`.${one}`));
}
function taintId({ key: key2, effect }) {
  return `${key2}:${effect}`;
}
var nodeMetadata = group(
  "Labels, annotations and taints of the Nodes of the group. A change reaches them at once, without a drain. What the group no longer has is removed from them, unless it was there before or another field manager owns it, too.",
  {
    labels: field(areValues("labels"), "Labels of the Nodes. Keys that a nodeSelector of a group reads are refused.", {
      absent: {}
    }),
    annotations: field(areValues("annotations"), "Annotations of the Nodes.", { absent: {} }),
    taints: field(listOf(taint, 16), "Taints of the Nodes.", { absent: [] }),
    domains: field(
      listOf(domain, 16, "set"),
      "Domains of keys that the group may have, such as example.com for example.com/pool, or whole keys without a domain, such as pool. The domains node-role.kubernetes.io and node-restriction.kubernetes.io need not be listed here. The value nodeMetadata.domains of the chart must have them, too.",
      { absent: [] }
    ),
    conflicts: field(
      oneOf(["Respect", "Force"]),
      "What happens to a key that another field manager has set to another value. Respect: it stays, and the condition MetadataApplied names it. Force: the group takes it over.",
      always("Respect")
    ),
    confirmNoExecute: field(
      flag(),
      "True allows taints with the effect NoExecute, which evict running pods.",
      always(false)
    )
  },
  ruled
);
var values = (text6) => described(v15.record(v15.string(), v15.string("a text")), text6);
var keys = (text6) => described(v15.array(v15.string("a key"), "a list"), text6, { "x-kubernetes-list-type": "atomic" });
var renderedSchema = object2({
  generation: described(count64(), "The metadata.generation that it was rendered for."),
  conflicts: described(oneOf(["Respect", "Force"]), "What happens to the keys of other field managers."),
  labels: values("The labels of the Nodes."),
  annotations: values("The annotations of the Nodes."),
  taints: described(
    v15.array(
      object2({
        key: described(v15.string("a key"), "The key of the taint."),
        value: described(v15.string("a value"), "The value of the taint."),
        effect: described(oneOf(EFFECTS), "The effect of the taint.")
      }),
      "a list"
    ),
    "The taints of the Nodes.",
    { "x-kubernetes-list-type": "atomic" }
  ),
  settings: values("The settings of the hosts, by their keys, as JSON."),
  dropped: described(
    object2({
      labels: keys("Keys of labels."),
      annotations: keys("Keys of annotations."),
      taints: keys("Taints, as key:effect.")
    }),
    "What earlier renderings had and this one does not have: it is removed from Nodes where the group owns it."
  )
});
function readRendered(status) {
  const { success, output } = v15.safeParse(renderedSchema, status?.rendered);
  return success ? output : void 0;
}
var renderedField = optional(
  renderedSchema,
  "What the Nodes of the group and their hosts are given. It is rendered when the spec changes: a new release of the operator does not change it.",
  { "x-kubernetes-map-type": "atomic" }
);

// packages/shared/src/api/settings.ts
var import_node_crypto = require("node:crypto");
var SETTING_CLASSES = ["Live", "RestartsService", "NeedsReboot", "Refused"];
var VERSION_LOCK = "settings.updates.version-lock";
var IGNORE_WAVES = "settings.updates.ignore-waves";
var UPDATER_SETTINGS = [VERSION_LOCK, IGNORE_WAVES];
var MAX_LEAVES = 100;
var MAX_KEY = 255;
var MAX_VALUE = 2048;
var MAX_SETTINGS = 8192;
var MAX_DEPTH = 4 * MAX_KEY;
var KEY2 = /^settings(?:\.(?:[A-Za-z0-9_/-]+|"[A-Za-z0-9_/.-]+"))+$/u;
var settingKey = textThat(
  (value2) => KEY2.test(value2),
  MAX_KEY,
  "the key of a setting, such as settings.motd",
  '^settings([.]([A-Za-z0-9_/-]+|"[A-Za-z0-9_/.-]+"))+$'
);
var settingValue = textThat(
  (value2) => isCanonical(value2),
  MAX_VALUE,
  "compact JSON of a text, a number, a flag or a list"
);
function isCanonical(text6) {
  try {
    const value2 = JSON.parse(text6);
    return value2 !== null && !isFields(value2) && canonical(value2) === text6;
  } catch {
    return false;
  }
}
function canonical(value2) {
  const text6 = JSON.stringify(
    value2,
    (_key, one) => isFields(one) ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => a < b ? -1 : 1)) : one
  );
  return text6.replaceAll(/[^ -~]/gu, escaped);
}
function escaped(character) {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
var ALIASES = [
  ["settings.boot.kernel-parameters.", "settings.boot.kernel."],
  ["settings.boot.init-parameters.", "settings.boot.init."]
];
function leavesOf(nested, path = "settings") {
  if (nested == null) return /* @__PURE__ */ new Map();
  if (path.length > MAX_DEPTH) return /* @__PURE__ */ new Map([[path, '""']]);
  if (!isFields(nested)) return /* @__PURE__ */ new Map([[keyOf(path), canonical(nested)]]);
  return new Map(Object.entries(nested).flatMap(([name, value2]) => [...leavesOf(value2, `${path}.${quoted(name)}`)]));
}
function keyOf(path) {
  const [written2, answered] = ALIASES.find(([start]) => path.startsWith(start)) ?? ["", ""];
  return `${answered}${path.slice(written2.length)}`;
}
function quoted(name) {
  return /^[A-Za-z0-9_/-]+$/u.test(name) ? name : `"${name}"`;
}
function overlaps(key2, pattern) {
  const names = namesIn(key2);
  const expected = `settings.${pattern}`.split(".").slice(0, names.length);
  return expected.every((name, i) => name === names[i] || name === "*");
}
function namesIn(key2) {
  return [...key2.matchAll(/"([^"]*)"|([^."]+)/gu)].map(([, inQuotes, plain]) => inQuotes ?? plain ?? "");
}
var SECRETS = [
  "aws.config",
  "aws.credentials",
  "bootstrap-containers.*.user-data",
  "container-registry.credentials",
  "container-registry.creds",
  "host-containers.*.user-data",
  "kubernetes.bootstrap-token",
  "kubernetes.server-key"
];
function isSecret(key2) {
  return SECRETS.some((pattern) => overlaps(key2, pattern));
}
function hashOf(leaves2) {
  const sorted2 = [...leaves2].toSorted(([a], [b]) => a < b ? -1 : 1);
  return (0, import_node_crypto.createHash)("sha256").update(JSON.stringify(sorted2)).digest("hex").slice(0, 16);
}

// packages/shared/src/api/node-group.ts
var NAME = "the name of a BottlerocketNodeGroup";
var groupName = v16.pipe(
  v16.string(NAME),
  v16.regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, NAME),
  v16.minLength(1, NAME),
  v16.maxLength(63, NAME)
);
var OWN = {
  // A reader goes on without it; the definition of the resource requires it.
  nodeSelector: field(
    labelSelector,
    "Which of the managed nodes are in the group, by their labels. An empty selector selects all. A kubelet may change the labels of its own Node, except those with the prefix node-restriction.kubernetes.io/."
  ),
  precedence: field(
    whole(0, 1e6),
    "If several groups select a node, it is in the one with the highest precedence; with the same precedence, in the one whose name sorts first. From 0, which is the default, to 1000000.",
    always(0)
  ),
  after: field(
    listOf(groupName, 20, "set"),
    "Groups that go first. A node starts its update to a version when all nodes of these groups run that version or a later one, are Ready, and are not updating. Nodes with the annotation brupop.bottlerocket.aws/skip do not count, nor do groups that pin another version or deny this one. A group without nodes keeps this one waiting.",
    { absent: [] }
  ),
  settings: field(
    v16.pipe(
      v16.record(v16.string(), v16.unknown(), "an object"),
      v16.metadata({ "x-kubernetes-preserve-unknown-fields": true })
    ),
    "Settings of the hosts, nested as `apiclient set --json` takes them, without the outer `settings`. A setting that is removed here gets back the value that it had before. The agent asks its host what a change disrupts before it makes it: nothing, kubelet and container runtime, which restart within the limits of concurrency, or a reboot, for which the node is drained as for an update. Version lock and waves belong to versions. Settings that hold secrets are refused, since their values could be read here: let a bootstrap container set them."
  ),
  settingsConflicts: field(
    oneOf(["Respect", "Force"]),
    "What happens to a setting that a user changes on the host afterwards. Respect: it stays, and a condition says so. Force: it is replaced, and is the value to get back later.",
    always("Respect")
  ),
  soak: field(
    duration("0s", "720h"),
    "How long a node waits after the latest successful update in the groups of after. Without after it has no effect.",
    always("0s")
  ),
  nodeMetadata
};
var ownSpec = fields(OWN);
var statusSchema2 = object2({
  observedGeneration: optional(
    count64(),
    "The latest metadata.generation that the controller has seen; the conditions are about it."
  ),
  confirmedGeneration: optional(
    count64(),
    "The latest metadata.generation that is completely in effect: every node has confirmed it, also those that wait for a window."
  ),
  conditions: conditions(
    "The state of the group. Ready: its spec is in use; False while it is being applied to nodes. Reconciling and Stalled, as kstatus reads them: the spec is being applied, and a user is needed. Paused: updates of its nodes are paused. Frozen: no update to a version starts that too many nodes failed with. WindowOpen: its maintenance windows allow updates to start. SettingsApplied: the hosts have its settings. Progressing: nodes are updating. Degraded: something needs a user. MetadataApplied: its Nodes have its labels, annotations and taints. PendingChanges: the next change of the spec will also bring what this release renders otherwise."
  ),
  rendered: renderedField,
  ...ROLLOUT,
  ...LANE,
  settings: optional(
    list(
      object2({
        key: described(settingKey, "The key of the setting."),
        class: described(
          oneOf(SETTING_CLASSES),
          "What its change disrupts. Live: nothing. RestartsService: kubelet or container runtime. NeedsReboot: it is set with the next update of the node. Refused: it cannot be set, and no other setting of the group is."
        ),
        reason: described(text(256), "Why it has this class."),
        nodes: described(count(), "On how many nodes it is left to be changed.")
      }),
      100
    ),
    "Changes of settings that are not made yet, at most 100.",
    { "x-kubernetes-list-type": "atomic" }
  )
});
var nodeGroupSchema = described(
  object2({
    spec: described(
      fields({ ...OWN, ...OVERRIDES }),
      "What users want. A field that is left out has the value of the BrupopConfig, except for paused, pauseMode, pauseReason, rollout.resume, rollout.approvedVersion and rollout.canary.nodeSelector. Percentages are of the nodes of the group. versions.deny and maintenance.blackouts are added to those of the BrupopConfig, and a pause of either holds."
    ),
    status: optional(statusSchema2, "What the controller reports.", NOT_SEEN)
  }),
  "A pool of nodes with rules of its own. Each node is in at most one group. The limits of the BrupopConfig hold for the nodes of all groups together."
);
function readNodeGroup(raw) {
  const { metadata: metadata13, spec, status } = raw;
  const { name, uid, resourceVersion, generation = 0, deletionTimestamp, finalizers = [] } = metadata13;
  const edits = editsOf(metadata13);
  const deleted = deletionTimestamp === void 0 ? {} : { deletionTimestamp };
  return {
    metadata: { name, uid, resourceVersion, generation, finalizers, ...deleted },
    spec,
    ...status && { status },
    ...edits.length > 0 && { edits }
  };
}
function readNodeGroupRules({ spec }) {
  return readSpec(ownSpec, spec);
}

// packages/shared/src/drain/budget-index.ts
var BudgetIndex = class _BudgetIndex {
  #byKey = /* @__PURE__ */ new Map();
  /** Budgets whose selectors require no label. */
  #others = [];
  #all;
  #replaced;
  /** How many budgets require a label. */
  #uses;
  /** @param larger - the index that counts how many budgets have a requirement; by default this one */
  constructor(budgets, larger) {
    this.#all = new Set(budgets);
    const read2 = budgets.map((budget) => ({ budget, requirements: requirementsOf(budget.selector) }));
    const labels = read2.flatMap(({ requirements }) => requirements.flatMap(labelsOf2));
    this.#uses = larger === void 0 ? countOf(labels) : larger.#uses;
    const usesOf = (requirement) => labelsOf2(requirement).reduce((sum, label) => sum + (this.#uses.get(label) ?? 0), 0);
    for (const { budget, requirements } of read2) {
      const [first, ...rest] = requirements;
      if (first === void 0) this.#others.push(budget);
      else
        this.#add(
          rest.reduce((a, b) => usesOf(b) < usesOf(a) ? b : a, first),
          budget
        );
    }
  }
  /** Returns the budgets that select a pod of the namespace, sorted by name. */
  of({ metadata: { labels = {} } }) {
    const found = [];
    const add3 = (candidates = []) => {
      for (const budget of candidates) if (selects(budget.selector, labels)) found.push(budget);
    };
    add3(this.#others);
    for (const key2 in labels) {
      const requiring = this.#byKey.get(key2);
      if (requiring === void 0) continue;
      add3(requiring.any);
      add3(requiring.values.get(labels[key2] ?? ""));
    }
    return found.length < 2 ? found : found.toSorted((a, b) => a.metadata.name < b.metadata.name ? -1 : 1);
  }
  /** Returns an index of these budgets, which knows its differences from this one. */
  replacedBy(budgets) {
    const next = new _BudgetIndex(budgets);
    const added = [...next.#all].filter((budget) => !this.#all.has(budget));
    const removed = [...this.#all].filter((budget) => !next.#all.has(budget));
    next.#replaced = { index: this, changed: new _BudgetIndex([...added, ...removed], next) };
    this.#replaced = void 0;
    return next;
  }
  /** True if the pod has the same budgets as in `earlier`; false also if that is unknown. */
  isSameFor(pod, earlier) {
    if (earlier === this) return true;
    return this.#replaced?.index === earlier && this.#replaced?.changed.of(pod).length === 0;
  }
  #add({ key: key2, values: values2 }, budget) {
    const requiring = this.#byKey.get(key2) ?? { values: /* @__PURE__ */ new Map(), any: [] };
    this.#byKey.set(key2, requiring);
    if (values2 === void 0) requiring.any.push(budget);
    for (const value2 of values2 ?? []) {
      const known = requiring.values.get(value2);
      if (known === void 0) requiring.values.set(value2, [budget]);
      else known.push(budget);
    }
  }
};
function indexedBudgets(budgets) {
  const groups = Map.groupBy(budgets, ({ metadata: metadata13 }) => metadata13.namespace ?? "");
  return new Map([...groups].map(([namespace, group2]) => [namespace, new BudgetIndex(group2)]));
}
function budgetsOf(pod, budgets) {
  return budgets.get(pod.metadata.namespace ?? "")?.of(pod) ?? [];
}
function requirementsOf(selector) {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  const expressions = matchExpressions.flatMap(({ key: key2, operator, values: values2 = [] }) => {
    if (operator === "Exists") return [{ key: key2, values: void 0 }];
    return operator === "In" ? [{ key: key2, values: [...new Set(values2)] }] : [];
  });
  return [...Object.entries(matchLabels).map(([key2, value2]) => ({ key: key2, values: [value2] })), ...expressions];
}
function labelsOf2({ key: key2, values: values2 }) {
  return values2?.map((value2) => `${key2}=${value2}`) ?? [key2];
}
function countOf(texts2) {
  const counts2 = /* @__PURE__ */ new Map();
  for (const text6 of texts2) counts2.set(text6, (counts2.get(text6) ?? 0) + 1);
  return counts2;
}

// packages/shared/src/node/operator-pods.ts
function isReplica(metadata13, namespace) {
  return [APISERVER, CONTROLLER].some((name) => {
    const controller = controllerOf(metadata13, name, namespace);
    return controller?.kind === "ReplicaSet" && controller.name.startsWith(`${name}-`);
  });
}
function controllerOf({ labels = {}, ownerReferences = [], ...metadata13 }, name, namespace) {
  if (metadata13.namespace !== namespace || labels[COMPONENT_LABEL] !== name) return void 0;
  return ownerReferences.find(({ controller, apiVersion }) => controller === true && apiVersion === "apps/v1");
}

// packages/shared/src/drain/pods.ts
var MAX_CHARS_OF_NODE = 4 * 1024 * 1024;
var MAX_NAME = 253;
var MIRROR_ANNOTATION = "kubernetes.io/config.mirror";
var CORDON_TAINT = "node.kubernetes.io/unschedulable";
var CORDON_EFFECT = "NoSchedule";
var DEFAULT_GRACE_SECONDS = 30;
function slimPod(raw, namespace) {
  const { metadata: metadata13, spec = {}, status = {} } = raw;
  const { nodeName: node = "", priority: priority2 = 0, volumes = [], tolerations = [] } = spec;
  const finished = isFinished(status);
  return {
    ...fromMetadata(metadata13, finished),
    own: namespace !== void 0 && isReplica(metadata13, namespace),
    ...fromOwner(metadata13),
    ...fromStatus(status),
    node,
    claims: finished ? [] : volumes.slice(0, MAX_CLAIMS).flatMap((volume) => claimsOf(metadata13.name, volume)),
    emptyDir: volumes.some((volume) => volume.emptyDir !== void 0),
    priority: priority2,
    graceSeconds: spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
    toleratesCordon: tolerations.some(toleratesCordon)
  };
}
var MAX_LABEL_CHARS = 8192;
var MAX_FINALIZERS = 5;
var MAX_CLAIMS = 200;
function fromMetadata(metadata13, finished) {
  const { creationTimestamp = "", labels = {}, annotations = {}, finalizers = [] } = metadata13;
  const isSmall = Object.entries(labels).reduce((sum, [key2, value2]) => sum + key2.length + value2.length, 0) <= MAX_LABEL_CHARS;
  return {
    metadata: { ...slimMetadata(metadata13), creationTimestamp, labels: isSmall && !finished ? labels : {} },
    isLabelled: isSmall,
    finalizers: finalizers.slice(0, MAX_FINALIZERS).map((one) => truncated(one, MAX_NAME)),
    mirror: annotations[MIRROR_ANNOTATION] !== void 0,
    drainPolicy: drainPolicyOf(labels[DRAIN_KEY] ?? annotations[DRAIN_KEY]),
    healthIgnored: (labels[HEALTH_KEY] ?? annotations[HEALTH_KEY]) === "ignore"
  };
}
function fromOwner({ namespace = "", ownerReferences = [] }) {
  const controller = ownerReferences.find((owner) => owner.controller === true);
  return {
    unmanaged: controller === void 0,
    controller: controller === void 0 ? "" : `${word(controller.kind)} ${namespace}/${word(controller.name)}`,
    stateful: controller?.kind === "StatefulSet",
    servesVolumes: controller !== void 0 && isInstanceManager(controller),
    ...controller?.kind === "DaemonSet" && fromDaemonSet(namespace, controller)
  };
}
function word(text6) {
  return truncated(text6.replaceAll(/[^A-Za-z0-9.:_-]/gu, "_"), MAX_NAME);
}
function fromDaemonSet(namespace, { apiVersion, name }) {
  const isForeign = !apiVersion.startsWith("apps/");
  return { daemonSet: `${namespace}/${truncated(name, MAX_NAME)}`, ...isForeign && { foreignDaemonSet: true } };
}
function isInstanceManager({ apiVersion, kind }) {
  return kind === "InstanceManager" && apiVersion.startsWith("longhorn.io/");
}
function drainPolicyOf(value2) {
  return value2 === "skip" || value2 === "last" ? value2 : void 0;
}
var FAILING = [
  "CrashLoopBackOff",
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError"
];
function isFinished({ phase: phase2 }) {
  return phase2 === "Succeeded" || phase2 === "Failed";
}
function fromStatus(status) {
  const { phase: phase2, conditions: conditions2 = [], containerStatuses = [], initContainerStatuses = [] } = status;
  const ready3 = conditions2.find(({ type }) => type === "Ready");
  return {
    finished: isFinished(status),
    pending: phase2 === "Pending",
    ready: ready3?.status === "True",
    readyChanged: parseTime(ready3?.lastTransitionTime),
    restarts: containerStatuses.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0),
    restartedAt: containerStatuses.flatMap(({ restartCount = 0, state: state2 }) => restartCount > 0 ? parseTime(state2?.running?.startedAt) ?? [] : []).toSorted((a, b) => a - b).at(-1),
    failing: [...containerStatuses, ...initContainerStatuses].some(
      ({ state: state2 }) => FAILING.includes(state2?.waiting?.reason)
    )
  };
}
function toleratesCordon({ key: key2, operator, effect = CORDON_EFFECT }) {
  const anyKey = key2 === void 0 || key2 === "";
  return effect === CORDON_EFFECT && (key2 === CORDON_TAINT || anyKey && operator === "Exists");
}
function claimsOf(pod, { name, persistentVolumeClaim, ephemeral }) {
  if (ephemeral !== void 0) return [`${pod}-${name}`];
  return persistentVolumeClaim === void 0 ? [] : [truncated(persistentVolumeClaim.claimName, MAX_NAME)];
}
function podKey(pod) {
  return `${pod.metadata.namespace ?? ""}/${pod.metadata.name}`;
}
function isTerminating({ metadata: metadata13 }) {
  return metadata13.deletionTimestamp !== void 0;
}
function hasEnded(pod) {
  return pod.finished && isTerminating(pod);
}
function podsToEvict(pods, { orphaned, needed, cordonedSince = Infinity }) {
  const stays = (pod) => pod.mirror || pod.drainPolicy === "skip" || hasEnded(pod) || needed?.has(pod.metadata.uid) === true || cameBack(pod, cordonedSince) || pod.daemonSet !== void 0 && !pod.finished && (pod.foreignDaemonSet === true || !orphaned.has(pod.daemonSet));
  const going = pods.filter((pod) => !stays(pod)).map((pod) => ({ pod, key: podKey(pod) }));
  return going.toSorted((a, b) => a.key < b.key ? -1 : 1).map(({ pod }) => pod);
}
var SCHEDULER_LAG_MS = 3e3;
function cameBack({ metadata: metadata13, toleratesCordon: toleratesCordon2 }, cordonedSince) {
  const lagMs = toleratesCordon2 ? 0 : SCHEDULER_LAG_MS;
  return (parseTime(metadata13.creationTimestamp) ?? 0) > cordonedSince + lagMs;
}

// packages/shared/src/drain/budgets.ts
var NOTHING_COUNTED = { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 };
var MAX_SELECTOR_CHARS = 4096;
var MAX_FAILURE_CHARS = 300;
var MAX_SELECTOR_VALUES = 100;
var ORDINARY = { values: 10, chars: 512 };
function sizeOf(selector) {
  const values2 = (selector?.matchExpressions ?? []).reduce((sum, one) => sum + (one.values?.length ?? 0), 0);
  const chars = JSON.stringify(selector ?? null).length;
  if (values2 > MAX_SELECTOR_VALUES || chars > MAX_SELECTOR_CHARS) return { isLarge: true, weight: 1 };
  return { isLarge: false, weight: 1 + Math.floor(values2 / ORDINARY.values) + Math.floor(chars / ORDINARY.chars) };
}
function slimBudget(raw) {
  const { metadata: metadata13, spec = {}, status = {} } = raw;
  const { isLarge, weight } = sizeOf(spec.selector);
  const { name, namespace = "", uid, resourceVersion, generation = 0 } = metadata13;
  const { observedGeneration = -1, ...counts2 } = { ...NOTHING_COUNTED, ...status };
  const { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = counts2;
  return {
    metadata: { name, namespace, uid, resourceVersion, generation },
    selector: isLarge ? {} : spec.selector ?? null,
    isLarge,
    weight,
    counted: observedGeneration >= generation,
    disruptionsAllowed,
    currentHealthy,
    desiredHealthy,
    expectedPods,
    hasDisruptedPods: Object.keys(status.disruptedPods ?? {}).length > 0,
    failure: failureOf(status),
    evictsUnready: spec.unhealthyPodEvictionPolicy === "AlwaysAllow",
    neverAllows: neverAllows(spec),
    closedSince: closedSince(status)
  };
}
function neverAllows({ minAvailable, maxUnavailable }) {
  return maxUnavailable === 0 || percentOf(maxUnavailable) === 0 || percentOf(minAvailable) === 100;
}
function percentOf(value2) {
  return typeof value2 === "string" && value2.endsWith("%") ? Number(value2.slice(0, -1)) : void 0;
}
function closedSince({ conditions: conditions2 = [] }) {
  const closed2 = conditions2.find(({ type, status }) => type === "DisruptionAllowed" && status === "False");
  return parseTime(closed2?.lastTransitionTime);
}
function failureOf({ conditions: conditions2 = [] }) {
  const failed2 = conditions2.find(({ type, reason: reason2 }) => type === "DisruptionAllowed" && reason2 === "SyncFailed");
  if (failed2 === void 0) return void 0;
  return truncated(failed2.message ?? "its controller gives no reason", MAX_FAILURE_CHARS);
}
function canIgnoreBudgets(pod) {
  return pod.finished || pod.pending || isTerminating(pod);
}
function canEvictUnready(pod, budget) {
  const healthy = budget.currentHealthy >= budget.desiredHealthy && budget.desiredHealthy > 0;
  return !pod.ready && (budget.evictsUnready || healthy);
}
function mayAllow(budget, closedBefore) {
  if (budget.failure !== void 0) return false;
  if (!budget.counted || budget.hasDisruptedPods) return true;
  if (budget.disruptionsAllowed > 0) return true;
  return hasUnhealthyPods(budget) && (budget.closedSince ?? Infinity) > closedBefore;
}
function mayBeOpened(budget) {
  return !budget.neverAllows && !budget.isLarge && budget.failure === void 0 && !hasUnhealthyPods(budget);
}
function hasUnhealthyPods({ currentHealthy, expectedPods }) {
  return currentHealthy < expectedPods;
}
function exhaustedBudgets(pod, all, closedBefore = -Infinity) {
  const [budget] = all;
  if (canIgnoreBudgets(pod)) return [];
  const large = all.find(({ isLarge }) => isLarge);
  if (large !== void 0) return [large];
  if (budget === void 0 || all.length > 1) return all;
  return mayAllow(budget, closedBefore) || canEvictUnready(pod, budget) ? [] : [budget];
}

// packages/shared/src/runtime/backoff.ts
function delayAfter(failures2, { baseMs, capMs }) {
  return Math.min(capMs, baseMs * 2 ** Math.min(failures2 - 1, 30));
}

// packages/controller/src/cluster/member-pods.ts
function membersKey({ namespace, podSelector: podSelector2, nodeSelector: nodeSelector2 }) {
  const nodes = nodeSelector2 === void 0 ? "" : `@${selectorText(nodeSelector2)}`;
  return `${namespace}?${selectorText(podSelector2)}${nodes}`;
}

// packages/controller/src/cluster/all-pods.ts
var NO_PODS_LISTED = { pods: [], seenAt: void 0, asOf: 0, problem: void 0, nextAt: 0 };
var RETRY_LIST_MS = 15e3;
function placedPod(raw) {
  const { metadata: metadata13 } = raw;
  const { finished, node, ready: ready3, mirror, healthIgnored, drainPolicy, daemonSet, controller } = slimPod(raw);
  if (finished) return void 0;
  return {
    key: podKey({ metadata: metadata13 }),
    node,
    ready: ready3,
    mirror,
    healthIgnored,
    drainPolicy,
    controller,
    ...daemonSet !== void 0 && { daemonSet },
    isTerminating: metadata13.deletionTimestamp !== void 0
  };
}

// packages/controller/src/cluster/group-metadata.ts
function taintName(taint2) {
  return `${taintId(taint2)}=${taint2.value ?? ""}`;
}
function isSameTaint(a, b) {
  return taintName(a) === taintName(b);
}
var MAX_KEYS = 200;
var MAX_KEY2 = 317;
function appliedKeys(managedFields = []) {
  const groups = managedFields.filter(isOfGroup);
  let omitted = Math.max(0, groups.length - MAX_KEYS);
  const some = (entry2, field2) => {
    const all = keysOf2(entry2, field2);
    const kept = all.filter((key2) => key2.length <= MAX_KEY2).slice(0, MAX_KEYS);
    omitted += all.length - kept.length;
    return kept;
  };
  const applied2 = groups.slice(0, MAX_KEYS).map((entry2) => ({
    group: (entry2.manager ?? "").slice(GROUP_MANAGER_PREFIX.length),
    labels: some(entry2, "labels"),
    annotations: some(entry2, "annotations")
  }));
  return { applied: applied2, omitted };
}
function isOfGroup({ manager = "", operation: operation2, subresource = "" }) {
  return manager.startsWith(GROUP_MANAGER_PREFIX) && operation2 === "Apply" && subresource === "";
}
function keysOf2(entry2, field2) {
  const names = Object.keys(ownedIn(entry2, field2));
  return names.filter((name) => name.startsWith("f:")).map((name) => name.slice(2));
}
function ownedIn({ fieldsV1 }, field2) {
  const metadata13 = fieldsV1?.["f:metadata"];
  const owned = isFields(metadata13) ? metadata13[`f:${field2}`] : void 0;
  return isFields(owned) ? owned : {};
}
function keysRecord(keys4) {
  return JSON.stringify(keys4);
}
function readKeysRecord(annotations) {
  const record9 = parse2(annotations[GROUP_KEYS_ANNOTATION]);
  if (!isFields(record9) || typeof record9["group"] !== "string") return void 0;
  return { group: record9["group"], labels: texts(record9["labels"]), annotations: texts(record9["annotations"]) };
}
function taintsRecord(taints) {
  return taints.length === 0 ? null : JSON.stringify(taints.toSorted((a, b) => taintId(a) < taintId(b) ? -1 : 1));
}
function readTaintsRecord(annotations) {
  const record9 = parse2(annotations[GROUP_TAINTS_ANNOTATION]);
  return Array.isArray(record9) ? record9.filter(isRecordedTaint) : [];
}
function isRecordedTaint(value2) {
  return isFields(value2) && ["group", "key", "value", "effect"].every((name) => typeof value2[name] === "string");
}
function texts(value2) {
  return Array.isArray(value2) ? value2.filter((one) => typeof one === "string") : [];
}
function parse2(text6) {
  try {
    return JSON.parse(text6 ?? "null");
  } catch {
    return void 0;
  }
}

// packages/shared/src/node/ownership.ts
var OWNERSHIP_ANNOTATIONS = [
  CORDONED_ANNOTATION,
  RECORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  AUTOSCALER_HOLDS_ANNOTATION
];
function ownedByUs({ metadata: { annotations = {} } }) {
  return OWNERSHIP_ANNOTATIONS.some((name) => annotations[name] !== void 0);
}
function cordonedByUs({ metadata: { annotations = {} } }) {
  return annotations[CORDONED_ANNOTATION] !== void 0;
}
function ownedHolds({ metadata: { annotations = {} } }) {
  const recorded2 = (annotations[AUTOSCALER_HOLDS_ANNOTATION] ?? "").split(",");
  return AUTOSCALER_HOLDS.filter((name) => recorded2.includes(name) && annotations[name] === "true");
}

// packages/controller/src/cluster/node.ts
var ANNOTATIONS = [
  ...OWNERSHIP_ANNOTATIONS,
  OUT_OF_SERVICE_ANNOTATION,
  ...AUTOSCALER_HOLDS,
  PRIORITY_ANNOTATION,
  SKIP_ANNOTATION,
  GROUP_KEYS_ANNOTATION,
  GROUP_TAINTS_ANNOTATION
];
var MAX_LABEL_CHARS2 = 65536;
var MAX_ITEMS = 200;
var MAX_NAME2 = 317;
function readNode(raw) {
  const { metadata: metadata13, spec = {}, status = {}, isLarge } = reduced(raw);
  const { unschedulable = false, taints = [] } = raw.spec ?? {};
  const { applied: applied2, omitted } = appliedKeys(metadata13.managedFields);
  return {
    metadata: readMetadata(metadata13, applied2),
    unschedulable,
    hasWaitingTaint: taints.some(({ key: key2 }) => key2 === WAITING_TAINT),
    hasStartupTaint: taints.some(({ key: key2 }) => key2 === STARTUP_TAINT),
    hasOutOfServiceTaint: taints.some(({ key: key2 }) => key2 === OUT_OF_SERVICE_TAINT),
    taints: (spec.taints ?? []).map(({ key: key2, value: value2 = "", effect }) => ({ key: key2, value: value2, effect })),
    applied: applied2,
    createdAt: parseTime(metadata13.creationTimestamp),
    ...readReady(status.conditions),
    conditions: otherConditions(status.conditions),
    clearedAt: changesOf(status.conditions),
    bootID: truncated(status.nodeInfo?.bootID ?? "", MAX_NAME2),
    isLarge: isLarge || omitted > 0
  };
}
function reduced(raw) {
  const { metadata: metadata13, spec = {}, status = {} } = raw;
  const { labels = {} } = metadata13;
  const { taints = [] } = spec;
  const { conditions: conditions2 = [] } = status;
  const hasManyLabels = JSON.stringify(labels).length > MAX_LABEL_CHARS2;
  const named4 = conditions2.filter(({ type, status: found }) => type.length + found.length <= MAX_NAME2);
  const kept = {
    taints: taints.slice(0, MAX_ITEMS),
    conditions: named4.slice(0, MAX_ITEMS)
  };
  return {
    metadata: { ...metadata13, labels: hasManyLabels ? pick(labels, OWN_LABELS) : labels },
    spec: { taints: kept.taints },
    status: { ...status, conditions: kept.conditions },
    isLarge: hasManyLabels || countOf2(kept) < countOf2({ taints, conditions: conditions2 })
  };
}
function countOf2(lists) {
  return Object.values(lists).reduce((sum, { length }) => sum + length, 0);
}
function readReady(conditions2 = []) {
  const { status, lastTransitionTime } = conditions2.find(({ type }) => type === "Ready") ?? {};
  return { ready: status === "True", isUnreachable: status === "Unknown", readySince: parseTime(lastTransitionTime) };
}
function otherConditions(conditions2 = []) {
  return conditions2.flatMap(({ type, status }) => type === "Ready" ? [] : [status === "True" ? type : `${type}=${status}`]).toSorted();
}
function changesOf(conditions2 = []) {
  return Object.fromEntries(
    conditions2.flatMap(({ type, lastTransitionTime }) => {
      const time2 = type === "Ready" ? void 0 : parseTime(lastTransitionTime);
      return time2 === void 0 ? [] : [[type, time2]];
    })
  );
}
function readMetadata({ name, uid, resourceVersion, creationTimestamp = "", deletionTimestamp, labels = {}, annotations }, applied2) {
  const metadata13 = {
    name,
    uid,
    resourceVersion,
    creationTimestamp,
    labels,
    annotations: pick(annotations, [...ANNOTATIONS, ...applied2.flatMap((one) => one.annotations)])
  };
  return deletionTimestamp === void 0 ? metadata13 : { ...metadata13, deletionTimestamp };
}
function pick(from, keys4) {
  if (from === void 0) return {};
  const found = [...new Set(keys4)].filter((key2) => Object.hasOwn(from, key2));
  return Object.fromEntries(found.map((key2) => [key2, from[key2] ?? ""]));
}
function bearsOwnership(node) {
  return ownedByUs(node) || node.hasWaitingTaint || node.hasStartupTaint || outOfServiceByUs(node);
}
function hasGroupMetadata({ applied: applied2, metadata: { annotations = {} } }) {
  const records = [GROUP_KEYS_ANNOTATION, GROUP_TAINTS_ANNOTATION];
  return applied2.length > 0 || records.some((name) => annotations[name] !== void 0);
}
function outOfServiceByUs({ metadata: { annotations = {} } }) {
  return annotations[OUT_OF_SERVICE_ANNOTATION] !== void 0;
}
var REMOVAL_TAINTS = [
  "ToBeDeletedByClusterAutoscaler",
  "karpenter.sh/disrupted",
  "karpenter.sh/disruption",
  "aws-node-termination-handler/spot-itn",
  "aws-node-termination-handler/asg-lifecycle-termination",
  "cloud.google.com/impending-node-termination",
  "node.cloudprovider.kubernetes.io/shutdown"
];
function isBeingRemoved({ metadata: metadata13, taints }) {
  return metadata13.deletionTimestamp !== void 0 || taints.some(({ key: key2 }) => REMOVAL_TAINTS.includes(key2));
}
function isDown(node) {
  return !node.ready || isBeingRemoved(node);
}
function zoneOf({ metadata: { labels = {} } }) {
  return labels[ZONE_LABEL] ?? "";
}
function isSelected(node, { nodeSelector: nodeSelector2 }) {
  return isManaged(node) && (nodeSelector2 === void 0 || selects(nodeSelector2, node.metadata.labels ?? {}));
}
function skippedBy({ metadata: { annotations } }) {
  const value2 = annotations?.[SKIP_ANNOTATION];
  return value2 === "false" ? void 0 : value2;
}
var CONTROL_PLANE_LABELS = ["control-plane", "master", "controlplane", "etcd"].map(
  (role) => `node-role.kubernetes.io/${role}`
);
var OWN_LABELS = [MANAGED_LABEL, ZONE_LABEL, EXCLUSION_LABEL, ...CONTROL_PLANE_LABELS];
function isControlPlane({ metadata: { labels = {} } }) {
  return CONTROL_PLANE_LABELS.some((label) => labels[label] !== void 0);
}
function isManaged(node) {
  return node.metadata.labels?.[MANAGED_LABEL] === MANAGED_LABEL_VALUE;
}

// packages/controller/src/cluster/state.ts
var STATES = {
  Staging: { isUnderWay: true, isDisrupted: false, evicts: false },
  Staged: { isUnderWay: true, isDisrupted: false, evicts: false },
  Draining: { isUnderWay: true, isDisrupted: true, evicts: true },
  Away: { isUnderWay: true, isDisrupted: true, evicts: true },
  Proving: { isUnderWay: true, isDisrupted: true, evicts: false },
  Finishing: { isUnderWay: false, isDisrupted: true, evicts: true },
  Restoring: { isUnderWay: false, isDisrupted: true, evicts: false },
  Resting: { isUnderWay: false, isDisrupted: false, evicts: false },
  Unconfirmed: { isUnderWay: false, isDisrupted: false, evicts: false }
};
function stateOf(shadow2) {
  const { spec, record: record9 } = shadow2;
  switch (spec.state) {
    case "StagedAndPerformedUpdate":
      return hasReached(shadow2) ? "Staged" : "Staging";
    case "RebootedIntoUpdate":
      return precedesReboot(shadow2) ? "Draining" : "Away";
    case "MonitoringUpdate":
      return "Proving";
    default:
  }
  const isConfirmed = spec.state === "Idle" && hasReached(shadow2);
  if (record9.rebootRequestedAt !== void 0) return isConfirmed ? "Restoring" : "Finishing";
  return isConfirmed ? "Resting" : "Unconfirmed";
}
function precedesReboot({ status }) {
  const { operation: operation2 } = status?.lastOperation ?? {};
  return operation2 === "Stage" || operation2 === "Drain";
}
function answers({ metadata: metadata13, status }) {
  return status !== void 0 && status.observedGeneration === metadata13.generation;
}
function hasReached(shadow2) {
  return answers(shadow2) && shadow2.status?.current_state === shadow2.spec.state;
}
function isUnderWay({ state: state2 }) {
  return STATES[state2].isUnderWay;
}
function isStaging(shadow2) {
  return shadow2.spec.state === "StagedAndPerformedUpdate";
}
function isSettled({ state: state2 }) {
  return state2 === "Resting" || state2 === "Restoring";
}
function purposeOf(shadow2) {
  const { spec, record: record9 } = shadow2;
  if (!isUnderWay(shadow2)) return void 0;
  if (hasStarted(shadow2) && sameVersion(record9.from, spec.version)) return "Settings";
  const { rollback } = record9;
  return rollback?.isDone === false && sameVersion(spec.version, rollback.previous) ? "Rollback" : "Update";
}
function hasStarted({ record: record9 }) {
  return record9.startedAt !== void 0 && record9.succeeded === void 0;
}
function holdsGroup({ state: state2, record: record9 }) {
  return STATES[state2].isUnderWay || state2 === "Finishing" || record9.rollback?.isDone === false;
}
function mayBeInUpdate({ state: state2 }) {
  const { isUnderWay: goesOn2, isDisrupted: isDisrupted2 } = STATES[state2];
  return goesOn2 || isDisrupted2;
}

// packages/controller/src/cluster/connectivity.ts
var CONNECTED = { lost: false, lostUntil: 0, zones: /* @__PURE__ */ new Map(), expired: [], counted: 0 };
function lossOf({ lost, lostUntil, zones }, node) {
  const zone = node === void 0 ? void 0 : zones.get(zoneOf(node));
  if (zone === void 0) return { lost, lostUntil };
  return { ...zone, lost: lost || zone.lost, lostUntil: Math.max(lostUntil, zone.lostUntil) };
}
function lostZones({ zones }) {
  return [...zones].flatMap(([name, { lost }]) => lost ? [name] : []).toSorted();
}
var EXPIRES_AFTER = 3 / 4;
var MIN_SHARE_OUTSIDE = 1 / 3;
var COUNTS_FOR_MS = 60 * 6e4;
var STARTS_FOR_MS = 10 * 6e4;

// packages/controller/src/cluster/sightings.ts
function sighted(before, { mark, reported: reported2 }, isWatched, now) {
  if (before?.mark === mark) return isAhead(before, now) ? { mark, since: wholeSecond(now) } : before;
  if (reported2 === void 0) return { mark, since: void 0 };
  return { mark, since: wholeSecond(isWatched ? now : Math.min(reported2, now)) };
}
function isAhead({ since = 0 }, now) {
  return since > now;
}
function wholeSecond(ms) {
  return Math.floor(ms / 1e3) * 1e3;
}
var READY = "Ready";
function sightingsOf({ ready: ready3, isUnreachable, readySince, clearedAt }, before, now) {
  const isWatched = before !== void 0;
  const dated = [
    [READY, { mark: `${ready3} ${isUnreachable} ${readySince}`, reported: readySince }],
    ...Object.entries(clearedAt).map(([type, reported2]) => [type, { mark: String(reported2), reported: reported2 }])
  ];
  return new Map(dated.map(([type, one]) => [type, sighted(before?.get(type), one, isWatched, now)]));
}
function asSighted(node, sightings) {
  if (sightings === void 0) return node;
  const readySince = sightings.get(READY)?.since;
  const cleared = Object.entries(node.clearedAt);
  const seen = cleared.map(([type, reported2]) => [type, sightings.get(type)?.since ?? reported2]);
  if (readySince === node.readySince && seen.every(([, since], i) => since === cleared[i]?.[1])) return node;
  return { ...node, readySince, clearedAt: Object.fromEntries(seen) };
}

// packages/controller/src/cluster/shadow.ts
var v18 = __toESM(require("valibot"), 1);

// packages/shared/src/api/record.ts
var v17 = __toESM(require("valibot"), 1);
var MAX_NAMES = 200;
var MAX_NAME3 = 700;
var version2 = text(100);
var settingsAt = object2({ hash: text(100), at: time() });
var NO_HISTORY = { count: 0, seconds: {} };
var entries = {
  /** When the latest update started (RFC 3339, as all times here). */
  startedAt: time(),
  /** The version that the node ran then; after the reboot nothing else shows it. */
  from: version2,
  /** The BottlerocketNodeGroup that it started with, until a success. */
  group: text(253),
  /** When the configuration ended it (a pause, a window, `spec.versions`): such an attempt does not count for the order of nodes. */
  endedByConfigAt: time(),
  /** When it was first allowed to drain and reboot the host; absent after its end. */
  rebootRequestedAt: time(),
  /** The boot ID of the Node at that time. */
  bootBefore: text(100),
  /** What was not Ready before the drain: DaemonSets as `namespace/name`, controllers as `Kind namespace/name`, conditions. */
  unreadyBefore: list(text(MAX_NAME3), MAX_NAMES),
  /** The workloads whose pods the drain evicts, `Kind namespace/name`. */
  evictedWorkloads: list(text(MAX_NAME3), MAX_NAMES),
  /** The workloads and DaemonSets whose pods on the node were Ready when its drain started, and how many seconds they took to become so. */
  readyBefore: object2({ at: time(), workloads: v17.record(text(MAX_NAME3), count(9999999)) }),
  /** Since when the update waits for unhealthy pods on the node. */
  podsWaitSince: time(),
  /** The workloads whose pods fail on it since its latest update; `from`: the node whose drain moved the pod. */
  suspects: list(
    object2({ workload: text(MAX_NAME3), problem: text(200), at: time(), from: v17.exactOptional(text(253)) }),
    MAX_NAMES
  ),
  /** The members of quorums that were on the node at its start; `pod` is without the namespace of the set. */
  members: list(object2({ quorum: text(253), pod: text(253) }), MAX_NAMES),
  /**
   * The Jobs of the attempt, as `Before/check/NAME` with `Succeeded`, and its versions. A Job is recorded before it is
   * created, so that no other controller creates it again.
   */
  jobs: v17.record(text(400), text(100)),
  /** The latest update, or reboot for settings (`isReboot`), that succeeded; absent from a start until a success. */
  succeeded: object2({ version: version2, at: time(), isReboot: v17.exactOptional(flag()) }),
  /** The latest update that succeeded before a reboot for settings; absent from the start of an update. */
  updated: object2({ version: version2, at: time() }),
  /**
   * The version that the node failed with, and why; absent after a success. `isHidden`: since then there was a reboot
   * for settings, an attempt with another version, or one whose spec a user wrote, and the agent reports that instead.
   */
  failed: object2({ version: version2, code: text(100), at: time(), isHidden: v17.exactOptional(flag()) }),
  /** The version of the latest update, if a user ended it with the annotation `abort`; absent from the next start. */
  aborted: object2({ version: version2, at: time() }),
  /** A user asked for the latest update with the annotation `update-now`: it waits for no window. */
  updateNow: flag(),
  /** The return from a version that failed to the previous one. */
  rollback: object2({ failed: version2, previous: version2, since: time(), isDone: flag() }),
  /**
   * How many updates of the node have ended, and how long the current one was in each state of the spec, whole seconds: for
   * history.ts. No decision depends on it, so that it cannot be unreadable.
   */
  history: v17.fallback(object2({ count: count(), seconds: v17.record(text(64), count()) }), NO_HISTORY),
  /** How long the latest update took, whole seconds. */
  updateSeconds: count(9999999),
  /** Seconds until the update was deferred: a lower bound of the next estimate. */
  deferredAfterSeconds: count(9999999),
  /** Attempts since the latest success that failed or were cancelled. */
  unsuccessful: count(),
  /** Attempts since the latest success that ended because the host no longer offered their version. */
  withdrawn: count(),
  /** How many attempts with one version have failed. */
  attempts: object2({ version: version2, count: count() }),
  /** How often the node was cordoned for pods that budgets held, and when the latest of these attempts started. */
  blockedDrains: object2({ count: count(), at: time() }),
  /** The boot ID of the host when it was allowed to change settings. */
  settingsBoot: text(100),
  settingsFailed: settingsAt,
  settingsRebooted: settingsAt,
  /** The settings of the group that the host has last proved, as key and value. */
  settingsProved: v17.array(v17.tuple([v17.string(), v17.string()]))
};
var whole2 = partial2(entries);
var readable = object2(
  Object.fromEntries(Object.entries(entries).map(([name, schema]) => [name, ifReadable(schema)]))
);
function readRecord({ annotations }) {
  const found = annotations?.[RECORD_ANNOTATION];
  if (found === void 0) return {};
  try {
    const value2 = JSON.parse(found);
    const read2 = v17.safeParse(whole2, value2);
    if (read2.success) return read2.output;
    return { ...v17.parse(readable, value2), isUnreadable: true };
  } catch {
    return { isUnreadable: true };
  }
}
function recordText(record9) {
  const known = Object.keys(entries).flatMap((name) => {
    const value2 = record9[name];
    return value2 === void 0 ? [] : [[name, value2]];
  });
  return known.length === 0 ? null : JSON.stringify(Object.fromEntries(known));
}

// packages/shared/src/api/error-codes.ts
var ERROR_CODES = {
  HostUnreachable: "RetrySoon",
  HostBusy: "RetrySoon",
  HostUnsupported: "Manual",
  HostStatusUnreadable: "Manual",
  UpdateCheckFailed: "RetrySoon",
  RefreshFailed: "RetryAfterBackoff",
  VersionNotOffered: "RetryWithOffered",
  PrepareFailed: "RetryAfterBackoff",
  WrongVersionStaged: "RetryAfterBackoff",
  StagedImageLost: "RetrySoon",
  SettingsFailed: "RetryAfterBackoff",
  DrainTimedOut: "RetryAfterBackoff",
  CordonRemoved: "Manual",
  ActivateFailed: "RetryAfterBackoff",
  RebootRefused: "RetryAfterBackoff",
  RebootTimedOut: "RetryAfterBackoff",
  RolledBack: "NeverThisVersion",
  WrongVersionBooted: "Manual",
  StepTimedOut: "RetryAfterBackoff"
};
function isErrorCode(value2) {
  return Object.hasOwn(ERROR_CODES, value2);
}

// packages/shared/src/api/shadow-agent.ts
var SHADOW_STATES = [
  "Idle",
  "StagedAndPerformedUpdate",
  "RebootedIntoUpdate",
  "MonitoringUpdate",
  "ErrorReset"
];
var OPERATIONS = ["Stage", "Drain", "Activate", "Reboot", "Restore"];
var OPERATION_STATES = ["Processing", "Succeeded", "Failed"];
var MESSAGE_LIMIT = 4096;
var ID_LIMIT = 128;
var ALLOWED = ["None", "Live", "RestartsService", "NeedsReboot"];
var MAX_EARLIER = 8;
var hash = textThat((value2) => /^[0-9a-f]{16}$/u.test(value2), 16, "16 hexadecimal digits", "^[0-9a-f]{16}$");
var BOOT_ID = "^[0-9A-Za-z-]+$";
var bootID = textThat(
  (value2) => new RegExp(BOOT_ID, "u").test(value2),
  ID_LIMIT,
  "a boot ID of letters, digits and dashes",
  BOOT_ID
);
var ATOMIC = { "x-kubernetes-list-type": "atomic" };
var setBy = described(text(80), "Who asks for it: a BottlerocketNodeGroup, or BrupopConfig for spec.versions.");
var SETTING = {
  key: described(settingKey, "Its key, such as settings.motd; parts with dots are in double quotes."),
  value: described(settingValue, "Its value as compact JSON."),
  owner: setBy,
  force: optional(flag(), "True: a value that a user has set on the host is replaced. Otherwise it stays.")
};
var setting = object2(SETTING);
var settings = object2({
  leaves: described(list(setting, MAX_LEAVES), "The settings, one by one.", ATOMIC),
  allow: described(
    oneOf(ALLOWED),
    "What a change may disrupt now. None: the agent only reports the class of each change. Live: nothing. RestartsService: kubelet or container runtime. NeedsReboot: it takes effect with the next boot. The settings of spec.versions are always set."
  )
});
var SPEC2 = {
  state: described(
    oneOf(SHADOW_STATES),
    "State to drive the node to. Idle: update nothing, and undo what an attempt left behind. StagedAndPerformedUpdate: download and write the version, without using it. RebootedIntoUpdate: drain the node, activate the version, reboot into it and return the node to service. MonitoringUpdate: the node runs the version and is watched for a while. ErrorReset is what older operators wrote after a failure; it means Idle."
  ),
  version: nullable2(version, "Version to drive the node to, such as 1.21.0. Absent or null in Idle."),
  state_transition_timestamp: nullable2(
    time(),
    "When the state was set. Time limits of a state count from this time."
  ),
  timeoutSeconds: nullable2(
    whole(60, 86400),
    "Time limit of the step that the state calls for, in seconds: of staging, or of the reboot without the drain, which has its own limit. Absent: the default of the agent."
  ),
  settings: nullable2(
    settings,
    "Settings that the host is to have. A setting that is no longer here gets back the value that it had before."
  )
};
var shadowSpec = object2(SPEC2);
var former = optional(
  settingValue,
  "Value that the host had before. Absent: it had none, or had the requested value when the agent first saw it."
);
var RECORD = {
  key: SETTING.key,
  value: described(settingValue, "Value that the agent set, or was about to set."),
  before: former,
  earlier: optional(
    list(settingValue, MAX_EARLIER),
    "Values that the agent may have set before this one, while a change was in flight.",
    ATOMIC
  ),
  owner: setBy,
  bootID: optional(
    bootID,
    "Boot ID of the node when the value was stored, if it takes effect with the next boot. Absent: it is in effect."
  )
};
var record4 = closedObject(RECORD);
var applied = closedObject({
  hash: described(hash, "Stands for the settings with their values."),
  time: described(time(), "When, by the node's clock.")
});
var keys2 = (what) => optional(list(settingKey, MAX_LEAVES), what, ATOMIC);
var pending = closedObject({
  key: SETTING.key,
  class: described(oneOf(SETTING_CLASSES), "What the change disrupts."),
  reason: described(text(256), "Why it has this class.")
});
var SETTINGS_STATUS = {
  lastApplied: optional(
    applied,
    "The latest settings that were in force, without those that are pending or in conflict."
  ),
  inFlight: optional(
    applied,
    "Settings that the agent has started to set. It is recorded before the first call and removed with the write of lastApplied: until then some of them may be set and others not, whatever the host says."
  ),
  records: optional(list(record4, MAX_LEAVES), "What was set, so that it can be restored.", ATOMIC),
  pending: optional(
    list(pending, MAX_LEAVES),
    "Changes that spec.settings.allow does not cover, or that are refused.",
    ATOMIC
  ),
  conflicts: keys2("Settings that a user has changed on the host. They stay as they are."),
  cannotUnset: keys2(
    "Settings that are no longer requested and stay on the host: they had no value before, and the host API cannot remove a setting; or what they had before is not known, since the host had the requested value when the agent first saw it."
  ),
  hostLock: optional(
    versionLock,
    "Version that the host is locked to by its own setting settings.updates.version-lock, although no pin is in force. Absent: it follows the releases that it is offered, or it is pinned."
  ),
  message: optional(text(MESSAGE_LIMIT), "Why the settings are not in force. Absent when they are.")
};
var settingsStatus = closedObject(SETTINGS_STATUS);
var codes = (recovery2) => Object.keys(ERROR_CODES).filter((code) => ERROR_CODES[code] === recovery2).join(", ");
var LAST_OPERATION = {
  operation: described(
    oneOf(OPERATIONS),
    "Stage: download and write the version. Drain: exclude the node from load balancers, cordon it and evict its pods. Activate: boot the version from now on. Reboot: restart the node. Restore: uncordon it and include it in load balancers again."
  ),
  state: described(oneOf(OPERATION_STATES), "Whether the step is in progress, done or failed."),
  version: described(version, "Version that the update goes to."),
  bootID: described(
    bootID,
    "Boot ID of the node when the step started. Another one in status.bootID means that the node has rebooted since."
  ),
  startTime: described(
    time(),
    "When the step started, by the node's clock. Its time limit counts from this time; that of a drain is in status.drain."
  ),
  lastUpdateTime: described(time(), "When the state of the step last changed, by the node's clock."),
  errorCode: optional(
    oneOf(Object.keys(ERROR_CODES)),
    `How the step failed. ${codes("RetrySoon")} are retried soon. ${codes("RetryAfterBackoff")} are retried after a wait that doubles. The first ${codes("RetryWithOffered")} since the latest success is no failure: the node starts again with the version that its host offers now. After ${codes("NeverThisVersion")} the version is not tried again until a user asks for it with the annotation brupop.bottlerocket.aws/retry. ${codes("Manual")} need a manual fix.`
  ),
  message: optional(text(MESSAGE_LIMIT), "What happened, for users.")
};
var lastOperation = closedObject(LAST_OPERATION);
var RESTORE_ERROR = "the Node cannot be restored for now: ";
var AGENT_STATUS = {
  current_state: described(
    oneOf(SHADOW_STATES),
    "State that the node has reached, with the meaning of spec.state. ErrorReset means that an attempt failed (see lastOperation)."
  ),
  current_version: described(version, "Version of Bottlerocket that the node runs."),
  target_version: described(
    version,
    "Newest version that the host offers, or the running version when it offers nothing."
  ),
  crash_count: described(
    count(),
    "Failed attempts in a row since the last success. The wait before the next attempt grows with it. The first attempt that ends because the host no longer offers its version does not count."
  ),
  state_transition_failure_timestamp: nullable2(
    time(),
    "When the latest attempt failed. Absent or null when none has failed since the last success."
  ),
  observedGeneration: described(
    count64(),
    "The metadata.generation of the spec that the agent answers with this status. Smaller: the agent has not acted on the spec yet."
  ),
  bootID: described(bootID, "Boot ID of the node, which changes at every boot."),
  bootTime: optional(time(), "When the node booted, by its own clock."),
  settings: optional(settingsStatus, "What was changed for spec.settings, and what was not."),
  lastOperation: optional(
    lastOperation,
    "The step of the current or the latest update. It outlives reboots: an agent that starts learns from it what happened before.",
    {
      "x-kubernetes-validations": [
        {
          rule: "self.state != 'Failed' || has(self.errorCode)",
          message: "a failed operation must have an error code",
          fieldPath: ".errorCode"
        }
      ]
    }
  )
};
var agentStatus = closedObject(AGENT_STATUS);

// packages/controller/src/cluster/shadow.ts
var PROGRESSING = "Progressing";
var SUSPECT = "Suspect";
var HEALTH = ["Ready", "Reconciling", "Stalled", SUSPECT];
function typesOf(entries2) {
  return Object.fromEntries(Object.entries(entries2).map(([name, schema]) => [name, unlessNull(typeOf(schema))]));
}
function typeOf(schema) {
  const { type, wrapped, entries: entries2 } = schema;
  if (wrapped !== void 0) return typeOf(wrapped);
  if (entries2 !== void 0) return object2(typesOf(entries2));
  if (type === "number") return v18.number("a number");
  return type === "boolean" ? v18.boolean("a boolean") : text3;
}
var text3 = changed(v18.string("a string"), printable);
var state = oneOf(SHADOW_STATES);
var lastOperation2 = { ...typesOf(LAST_OPERATION), operation: text3, state: text3, version: text3, bootID: text3 };
var leaf = object2({
  key: text3,
  value: v18.string(),
  owner: text3,
  force: ifReadable(v18.boolean())
});
var keys3 = unlessNull(v18.array(text3));
var settingsStatus2 = object2({
  lastApplied: unlessNull(object2({ hash: text3 })),
  inFlight: unlessNull(v18.looseObject({})),
  records: unlessNull(v18.array(object2({ key: text3 }))),
  pending: unlessNull(v18.array(object2({ key: text3, class: oneOf(SETTING_CLASSES), reason: text3 }))),
  conflicts: keys3,
  cannotUnset: keys3,
  hostLock: unlessNull(text3),
  message: unlessNull(text3)
});
var shadow = object2({
  spec: object2({
    ...typesOf(SPEC2),
    state,
    settings: ifReadable(v18.nullable(object2({ leaves: v18.array(leaf), allow: v18.fallback(oneOf(ALLOWED), "None") })))
  }),
  status: unlessNull(
    object2({
      ...typesOf(AGENT_STATUS),
      current_state: unlessNull(state),
      settings: ifReadable(settingsStatus2),
      lastOperation: unlessNull(object2(lastOperation2)),
      drain: ifReadable(
        v18.looseObject({
          observedGeneration: v18.optional(v18.number()),
          startTime: v18.optional(text3),
          resumeTime: v18.optional(text3),
          result: v18.optional(text3),
          blockedBy: ifReadable(v18.array(object2({ pod: text3, reason: text3, since: text3 })))
        })
      ),
      group: ifReadable(text3),
      conditions: unlessNull(v18.array(v18.looseObject({}, "an object"), "a list"))
    })
  )
});
var SHADOW_PREFIX2 = shadowName("");
var NO_SPEC = { version: null, state_transition_timestamp: null, timeoutSeconds: null, settings: null };
var NO_STATUS = {
  current_version: "",
  target_version: "",
  crash_count: 0,
  state_transition_failure_timestamp: null,
  bootID: ""
};
function readShadow(raw) {
  const { metadata: metadata13 } = raw;
  const read2 = parse(shadow, raw, "", (message) => new Error(`${metadata13.name}: ${message}`));
  const conditions2 = read2.status?.conditions;
  return shadowView({
    metadata: readMetadata2(metadata13),
    record: readRecord(metadata13),
    spec: { ...NO_SPEC, ...read2.spec },
    ...readStatus(metadata13, read2),
    progressing: conditions2?.find(({ type }) => type === PROGRESSING),
    health: (conditions2 ?? []).filter(({ type }) => HEALTH.includes(type)).map(healthCondition),
    group: read2.status?.group ?? ""
  });
}
function shadowView(read2) {
  const { record: record9 } = read2;
  const state2 = stateOf(read2);
  const since = parseTime(record9.rollback?.since);
  return {
    ...read2,
    state: state2,
    purpose: purposeOf({ ...read2, state: state2 }),
    rollback: record9.rollback === void 0 || since === void 0 ? void 0 : { ...record9.rollback, since },
    updated: updateIn(record9),
    times: timesOf(read2)
  };
}
function updateIn(record9) {
  const latest3 = latestUpdate(record9);
  const at2 = parseTime(latest3?.at);
  return latest3 === void 0 || at2 === void 0 ? void 0 : { version: latest3.version, at: at2 };
}
function latestUpdate({ succeeded: succeeded2, updated: updated2 }) {
  return succeeded2 === void 0 || succeeded2.isReboot === true ? updated2 : succeeded2;
}
function timesOf({ metadata: metadata13, spec, status, record: record9 }) {
  const { startTime, resumeTime, endTime } = status?.drain ?? {};
  return {
    createdAt: parseTime(metadata13.creationTimestamp),
    stateSince: parseTime(spec.state_transition_timestamp),
    startedAt: parseTime(record9.startedAt),
    succeededAt: parseTime(record9.succeeded?.at),
    failedAt: parseTime(status?.state_transition_failure_timestamp),
    drainSince: parseTime(resumeTime ?? startTime),
    drainEnd: parseTime(endTime)
  };
}
function healthCondition({ type, status, lastTransitionTime }) {
  return { type, status, lastTransitionTime };
}
var REQUESTS = [RETRY_ANNOTATION, ABORT_ANNOTATION, UPDATE_NOW_ANNOTATION];
var MAX_REQUEST = 200;
function readMetadata2(metadata13) {
  const { name, uid, resourceVersion, namespace = "", generation = 0, ownerReferences = [] } = metadata13;
  const requests = Object.entries(pick(metadata13.annotations, REQUESTS));
  const annotations = Object.fromEntries(requests.map(([key2, value2]) => [key2, value2.slice(0, MAX_REQUEST)]));
  const { creationTimestamp = "" } = metadata13;
  return { name, uid, resourceVersion, namespace, generation, annotations, ownerReferences, creationTimestamp };
}
function readStatus({ generation = 0 }, read2) {
  const { current_state, conditions: _, group: _group, ...reported2 } = read2.status ?? {};
  if (current_state === void 0) return {};
  const answered = current_state === read2.spec.state || current_state === "ErrorReset";
  const observedGeneration = answered ? generation : -1;
  return { status: { ...NO_STATUS, observedGeneration, ...reported2, current_state } };
}
function nodeOf({ metadata: metadata13 }) {
  return metadata13.name.startsWith(SHADOW_PREFIX2) ? metadata13.name.slice(SHADOW_PREFIX2.length) : metadata13.name;
}
function blockOf({
  metadata: metadata13,
  spec,
  status
}) {
  const { observedGeneration, endTime, blockedBy: blockedBy2 = [] } = status?.drain ?? {};
  const isDraining = spec.state === "RebootedIntoUpdate" && observedGeneration === metadata13.generation;
  return isDraining && endTime === void 0 ? blockedBy2[0] : void 0;
}
function groupAtStart({ record: record9 }) {
  return record9.group ?? "";
}
function endedByConfig({ record: record9 }) {
  return record9.endedByConfigAt !== void 0;
}
function isOwnedBy(shadow2, node) {
  return (shadow2.metadata.ownerReferences ?? []).some(({ kind, uid }) => kind === "Node" && uid === node.metadata.uid);
}

// packages/controller/src/cluster/snapshot.ts
function isPair(managedNode) {
  const { node, shadow: shadow2 } = managedNode;
  return node !== void 0 && shadow2 !== void 0 && isOwnedBy(shadow2, node);
}
var REVISION_LABEL = "controller-revision-hash";
var STALE_RECHECK_MS = 1e4;
function staleResources(watchLags) {
  return watchLags.filter(({ ms }) => ms >= WATCH_STALE_MS).map(({ resource }) => resource);
}
function staleCheckTimes(watchLags, now) {
  return watchLags.map(({ ms }) => now + (ms >= WATCH_STALE_MS ? STALE_RECHECK_MS : WATCH_STALE_MS - ms));
}

// packages/controller/src/cluster/pods.ts
var MAX_TIMES = 3;
var MAX_OBSERVED = 200;
var RESTARTED_MS = 6e4;
function observedPods({ nodeUID, pods, seenAt = 0 }, before) {
  const earlier = before?.nodeUID === nodeUID ? before.listedAt.slice(-MAX_TIMES) : [];
  return {
    nodeUID,
    pods: pods.filter((pod) => isTroubled(pod, seenAt)).slice(0, MAX_OBSERVED).map(observedPod),
    listedAt: [...earlier, seenAt]
  };
}
function isTroubled({ finished, ready: ready3, failing, restarts, restartedAt = 0 }, seenAt) {
  return !finished && (!ready3 || failing || restarts > 1 && seenAt - restartedAt < RESTARTED_MS);
}
function observedPod(pod) {
  const {
    metadata: metadata13,
    controller,
    daemonSet,
    mirror,
    healthIgnored,
    ready: ready3,
    readyChanged,
    failing,
    restarts,
    restartedAt
  } = pod;
  const revision = metadata13.labels?.[REVISION_LABEL];
  const labels = revision === void 0 ? {} : { [REVISION_LABEL]: revision };
  return {
    metadata: { ...metadata13, labels },
    controller,
    ...daemonSet !== void 0 && { daemonSet },
    mirror,
    healthIgnored,
    ready: ready3,
    readyChanged,
    failing,
    restarts,
    restartedAt
  };
}

// packages/controller/src/cluster/node-memory.ts
var HOUR_MS = 60 * 6e4;
var FORMER_SLOT_MS = HOUR_MS;
var CORDON_MEMORY_MS = 24 * HOUR_MS;
var PROCESS_START = 0;
var MAX_NAMES2 = 2e4;
var NodeMemory = class {
  /** `slotUntil` is on the monotonic clock. */
  #former = /* @__PURE__ */ new Map();
  /** When the Node or the shadow of a pair was deleted while the other one stayed, on the monotonic clock. */
  #missing = /* @__PURE__ */ new Map();
  #cordons = /* @__PURE__ */ new Map();
  /** By UID: since when the Node has each of its taints that evict pods, on the monotonic clock. */
  #evicting = /* @__PURE__ */ new Map();
  /** By name, what the agent has reported of the settings of its host; `since` is on the monotonic clock. */
  #settings = /* @__PURE__ */ new Map();
  /** By UID: a zone never changes. */
  #zones = /* @__PURE__ */ new Map();
  /** By UID. */
  #sightings = /* @__PURE__ */ new Map();
  /** Nodes as {@link asObserved} returns them: each change of a Node is another object. */
  #observed = /* @__PURE__ */ new WeakMap();
  /** `node` is undefined after its deletion. */
  node(name, node, shadow2, now) {
    const ours = node !== void 0 && ownedByUs(node) && shadow2 !== void 0 && isUnderWay(shadow2);
    this.#cordon(name, node?.unschedulable === true && !ours, now.monotonic);
    if (node === void 0) return;
    const { uid } = node.metadata;
    this.#evict(node, now.monotonic);
    if (zoneOf(node) !== "" && !this.#zones.has(uid)) remember(this.#zones, uid, zoneOf(node));
    remember(this.#sightings, uid, sightingsOf(node, this.#sightings.get(uid), now.wall));
  }
  /** Whether one of the Node and the shadow is missing now. */
  missing(name, isMissing, { monotonic }) {
    if (isMissing) this.#missing.set(name, monotonic);
    else this.#missing.delete(name);
  }
  forget({ metadata: { uid } }) {
    this.#zones.delete(uid);
    this.#evicting.delete(uid);
    this.#sightings.delete(uid);
  }
  /** Call for each shadow that this process observes for the first time: the node is new, unless it has the operator's cordon. */
  shadowAdded(name, node, { monotonic: now }) {
    if (this.#former.has(name) || node !== void 0 && ownedByUs(node)) return;
    remember(this.#former, name, { startedAt: void 0, slotUntil: now });
  }
  /** Call for each change of a shadow. A new process takes the time at which it first sees the settings. */
  settings(name, { status }, { monotonic: since }) {
    const { lastApplied, inFlight } = status?.settings ?? {};
    const mark = JSON.stringify([lastApplied, inFlight]);
    if (this.#settings.get(name)?.mark !== mark) remember(this.#settings, name, { mark, since });
  }
  shadowDeleted(name, shadow2, { wall, monotonic: now }) {
    const before = this.#former.get(name);
    const ageMs = wall - (shadow2.times.createdAt ?? wall);
    const known = before?.slotUntil ?? now - ageMs + FORMER_SLOT_MS;
    const slotUntil = mayBeInUpdate(shadow2) ? now + FORMER_SLOT_MS : known;
    remember(this.#former, name, { startedAt: shadow2.times.startedAt ?? before?.startedAt, slotUntil });
  }
  /** Times are epoch milliseconds. */
  of(name, now) {
    const [former2, cordon, settings2] = [this.#former.get(name), this.#cordons.get(name), this.#settings.get(name)];
    return {
      former: former2 && { ...former2, slotUntil: wallTimeOf(former2.slotUntil, now) },
      missingSince: wallTimeOf(this.#missing.get(name) ?? PROCESS_START, now),
      cordonedSince: cordon?.isOn === true ? wallTimeOf(cordon.since, now) : void 0,
      settingsSince: settings2 && wallTimeOf(settings2.since, now)
    };
  }
  /**
   * When the Node got the latest of those taints that its group gives and that evict pods, epoch milliseconds. A kubelet cannot
   * change taints, so nothing that it writes counts.
   */
  evictedSince({ node, group: group2 }, now) {
    const seen = this.#evicting.get(node?.metadata.uid ?? "");
    const times = (group2?.rendered?.taints ?? []).flatMap((taint2) => seen?.get(taintName(taint2)) ?? []);
    return times.length === 0 ? void 0 : wallTimeOf(Math.max(...times), now);
  }
  /** Returns the Node with the zone in which it was first observed, and with the times of {@link Sightings}. */
  asObserved(node) {
    const known = this.#observed.get(node);
    if (known !== void 0) return known;
    const observed = this.#observe(node);
    this.#observed.set(node, observed);
    return observed;
  }
  #observe(node) {
    const { uid, labels } = node.metadata;
    const seen = asSighted(node, this.#sightings.get(uid));
    const zone = this.#zones.get(uid);
    if (zone === void 0 || zone === zoneOf(node)) return seen;
    return { ...seen, metadata: { ...node.metadata, labels: { ...labels, [ZONE_LABEL]: zone } } };
  }
  /** A new process takes the time at which it first sees them. */
  #evict({ taints, metadata: { uid } }, now) {
    const before = this.#evicting.get(uid);
    const names = taints.filter(({ effect }) => effect === "NoExecute").map(taintName);
    if (names.length === 0) this.#evicting.delete(uid);
    else remember(this.#evicting, uid, new Map(names.map((name) => [name, before?.get(name) ?? now])));
  }
  #cordon(name, isOn2, now) {
    const before = this.#cordons.get(name);
    if (before?.isOn === isOn2 || before === void 0 && !isOn2) return;
    const { since = now, endedAt = now } = before ?? {};
    if (!isOn2) remember(this.#cordons, name, { isOn: isOn2, since, endedAt: now });
    else if (now - endedAt >= CORDON_MEMORY_MS) remember(this.#cordons, name, { isOn: isOn2, since: now, endedAt });
    else remember(this.#cordons, name, { isOn: isOn2, since: now - (endedAt - since), endedAt });
  }
};
function remember(memory, name, value2) {
  memory.delete(name);
  memory.set(name, value2);
  const [oldest] = memory.keys();
  if (memory.size > MAX_NAMES2 && oldest !== void 0) memory.delete(oldest);
}

// packages/controller/src/policy/interval.ts
function merge(intervals) {
  const merged3 = [];
  for (const { fromMs, toMs } of intervals.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = merged3.at(-1);
    if (fromMs >= toMs) continue;
    if (last === void 0 || fromMs > last.toMs) merged3.push({ fromMs, toMs });
    else if (toMs > last.toMs) merged3[merged3.length - 1] = { fromMs: last.fromMs, toMs };
  }
  return merged3;
}
function subtract(intervals, holes) {
  return intervals.flatMap(({ fromMs, toMs }) => {
    const inside = holes.filter((hole) => hole.toMs > fromMs && hole.fromMs < toMs);
    const starts = [fromMs, ...inside.map((hole) => hole.toMs)];
    const ends = [...inside.map((hole) => hole.fromMs), toMs];
    return starts.map((start, i) => ({ fromMs: start, toMs: ends[i] ?? toMs })).filter((part) => part.fromMs < part.toMs);
  });
}

// packages/controller/src/policy/schedule.ts
var import_croner = require("croner");
var DAY_MS2 = 24 * 60 * 6e4;
var NUMBER2 = String.raw`\d+`;
var MONTH = `${NUMBER2}|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC`;
var WEEKDAY = "[0-6]|MON|TUE|WED|THU|FRI|SAT";
var FIELDS = [
  ["minute", /^\d+(?:,\d+)*$/u, "0 or 0,30; it has no *, range or step"],
  ["hour", patternOf(NUMBER2), "2 or 1,13"],
  ["day of month", patternOf(NUMBER2), "*, 1 or 1-7"],
  ["month", patternOf(MONTH), "*, */3 or JAN,JUL"],
  ["day of week", patternOf(WEEKDAY, "|SUN"), "*, MON-FRI or SUN; the week starts with SUN, which is 0"]
];
var EXPECTED2 = 'five fields (minute, hour, day of month, month, day of week), such as "0 2 * * *"';
function patternOf(value2, alone = "") {
  const item = String.raw`(?:\*/\d+|(?:${value2}${alone})(?:-(?:${value2})(?:/\d+)?)?)`;
  return new RegExp(String.raw`^(?:\*|${item}(?:,${item})*)$`, "iu");
}
function scheduleProblem(schedule) {
  const fields2 = fieldsOf(schedule);
  if (fields2.length !== FIELDS.length) return EXPECTED2;
  const wrong2 = FIELDS.find(([, pattern], index) => !pattern.test(fields2[index] ?? ""));
  if (wrong2 !== void 0) return `${EXPECTED2}, with a ${wrong2[0]} such as ${wrong2[2]}`;
  try {
    cron(fields2, "UTC");
    return void 0;
  } catch (error) {
    const reason2 = error instanceof Error ? error.message.replace(/^CronPattern: /u, "") : String(error);
    return `a cron schedule such as "0 2 * * *" (${reason2})`;
  }
}
function valuesOf(schedule) {
  const [minutes2 = "", hours = "", days = "", months = "", weekdays = ""] = fieldsOf(schedule);
  const hoursOfDay = matching(["0", hours, "*", "*", "*"], 24, HOUR_MS2);
  const minutesOfHour = [...new Set(minutes2.split(",").map(Number))].toSorted((a, b) => a - b);
  return {
    minutes: hoursOfDay.flatMap((hour) => minutesOfHour.map((minute) => hour * 60 + minute)),
    // January 1970 has 31 days, and its fourth is a Sunday.
    daysOfMonth: new Set(matching(["0", "0", days, "*", "*"], 31, DAY_MS2).map((day) => day + 1)),
    months: new Set(
      MONTH_STARTS.flatMap((start, month) => isMatch(["0", "0", "*", months, "*"], start) ? [month + 1] : [])
    ),
    weekdays: new Set(matching(["0", "0", "*", "*", weekdays], 7, DAY_MS2, 3 * DAY_MS2)),
    eitherDay: days !== "*" && weekdays !== "*",
    isFixed: !/[*/]/u.test(hours)
  };
}
var HOUR_MS2 = 60 * 6e4;
var DAYS_OF_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
var MONTH_STARTS = DAYS_OF_MONTHS.map(
  (_, month) => (730 + DAYS_OF_MONTHS.slice(0, month).reduce((a, b) => a + b, 0)) * DAY_MS2
);
function matching(fields2, count2, stepMs, fromMs = 0) {
  const schedule = cron(fields2, "UTC");
  return Array.from({ length: count2 }, (_, i) => i).filter((i) => schedule.match(dateOf(fromMs + i * stepMs)));
}
function isMatch(fields2, time2) {
  return cron(fields2, "UTC").match(dateOf(time2));
}
function everOpens({ schedule, days }) {
  const { daysOfMonth, months, weekdays, eitherDay } = valuesOf(schedule);
  const allowed = weekdaysOf(days);
  const isDate = [...months].some((month) => [...daysOfMonth].some((day) => day <= (DAYS_OF_MONTHS[month - 1] ?? 0)));
  const isWeekday = [...weekdays].some((weekday) => allowed.has(weekday));
  return eitherDay ? isDate || isWeekday : isDate && isWeekday;
}
function weekdaysOf(days) {
  return new Set(days.length === 0 ? WEEKDAYS.keys() : days.map((day) => WEEKDAYS.indexOf(day)));
}
var WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
function* localDays(timeZone2, fromMs) {
  const midnights = cron(["0", "0", "*", "*", "*"], timeZone2);
  const clock = clockOf(timeZone2);
  let start = midnights.previousRuns(1, dateOf(fromMs))[0]?.getTime();
  while (start !== void 0) {
    const tomorrow = start + DAY_MS2;
    const end = midnights.match(dateOf(tomorrow)) ? tomorrow : nextAfter(midnights, start);
    if (end !== void 0) {
      const day = { fromMs: start, toMs: end };
      const { minute: _, ...date } = clock(start);
      yield { ...day, ...date, stretches: end === tomorrow ? [{ ...day, minute: 0 }] : stretchesOf(day, clock) };
    }
    start = end;
  }
}
function clockOf(timeZone2) {
  const options = { month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", weekday: "short" };
  const format = new Intl.DateTimeFormat("en-US", { timeZone: timeZone2, hourCycle: "h23", ...options });
  return (time2) => {
    const parts = Object.fromEntries(format.formatToParts(time2).map(({ type, value: value2 }) => [type, value2]));
    const number6 = (type) => Number(parts[type]);
    return {
      dayOfMonth: number6("day"),
      month: number6("month"),
      weekday: WEEKDAYS.indexOf(parts["weekday"] ?? ""),
      minute: number6("hour") * 60 + number6("minute")
    };
  };
}
var QUARTER_MS = 15 * 6e4;
function stretchesOf({ fromMs, toMs }, clock) {
  const stretches = [];
  for (let time2 = fromMs; time2 < toMs; time2 += QUARTER_MS) {
    const { minute } = clock(time2);
    const last = stretches.at(-1);
    if (last !== void 0 && minute === last.minute + (time2 - last.fromMs) / 6e4) continue;
    if (last !== void 0) stretches[stretches.length - 1] = { ...last, toMs: time2 };
    stretches.push({ fromMs: time2, toMs, minute });
  }
  return stretches;
}
function windowsOn({ schedule, days, durationMs: durationMs2 }) {
  const fields2 = valuesOf(schedule);
  const allowed = weekdaysOf(days);
  const openFrom2 = (starts) => merge(starts.map((fromMs) => ({ fromMs, toMs: fromMs + durationMs2 })));
  const ordinary = openFrom2(fields2.minutes.map((minute) => minute * 6e4));
  return (day) => {
    if (!allowed.has(day.weekday) || !isOn(fields2, day)) return [];
    if (day.stretches.length > 1 || day.toMs - day.fromMs !== DAY_MS2) return openFrom2(startsOn(fields2, day));
    return ordinary.map(({ fromMs, toMs }) => ({ fromMs: day.fromMs + fromMs, toMs: day.fromMs + toMs }));
  };
}
function isOn({ daysOfMonth, months, weekdays, eitherDay }, day) {
  const [isDate, isWeekday] = [daysOfMonth.has(day.dayOfMonth), weekdays.has(day.weekday)];
  return months.has(day.month) && (eitherDay ? isDate || isWeekday : isDate && isWeekday);
}
function startsOn({ minutes: minutes2, isFixed }, { stretches }) {
  let passed = 0;
  return stretches.flatMap(({ fromMs, toMs, minute: first }) => {
    const end = first + (toMs - fromMs) / 6e4;
    const least = isFixed ? passed : first;
    passed = Math.max(passed, end);
    const starts = minutes2.filter((minute) => minute >= least && minute < end);
    return starts.map((minute) => fromMs + Math.max(0, minute - first) * 6e4);
  });
}
function fieldsOf(schedule) {
  return schedule.trim().split(/\s+/u).map((field2) => field2.replaceAll(/\*\/0*1(?!\d)/gu, "*"));
}
function cron(fields2, timezone) {
  return new import_croner.Cron(fields2.join(" "), { timezone, mode: "5-part", fixedTimeRule: "no-wildcard", domAndDow: false });
}
function nextAfter(schedule, time2) {
  return schedule.nextRun(dateOf(time2))?.getTime();
}
function dateOf(epochMs) {
  return new Date(epochMs);
}

// packages/controller/src/policy/calendar.ts
var HORIZON_DAYS = 400;
var MAX_WINDOWS = 1e4;
function problemOf({ timeZone: timeZone2, windows }) {
  return timeZoneProblem(timeZone2) ?? windows.map(windowProblem).find((problem) => problem !== void 0);
}
function timeZoneProblem(timeZone2) {
  try {
    Intl.DateTimeFormat("en-US", { timeZone: timeZone2 });
    return void 0;
  } catch {
    return wrong("timeZone", 'the name of a time zone, such as "UTC" or "Europe/Berlin"', timeZone2);
  }
}
function windowProblem(window2, index) {
  const { schedule, days } = window2;
  const field2 = `windows[${index}]`;
  const problem = scheduleProblem(schedule);
  if (problem !== void 0) return wrong(`${field2}.schedule`, problem, schedule);
  if (everOpens(window2)) return void 0;
  if (days.length === 0) return wrong(`${field2}.schedule`, "a date that exists", schedule);
  return wrong(`${field2}.days`, `a day on which "${schedule}" starts`, days.join(", "));
}
function wrong(field2, expected, found) {
  return `maintenance.${field2}: expected ${expected}, found ${JSON.stringify(found)}`;
}
function calendarOf(maintenance) {
  const closed2 = merge(maintenance.blackouts);
  let kept;
  const openTimeAt = (now) => {
    const dayMs = Math.floor(now / DAY_MS2) * DAY_MS2;
    if (kept?.dayMs !== dayMs) kept = openTimeFrom(dayMs, maintenance, closed2);
    return kept;
  };
  return {
    at: (now) => stateAt(maintenance, closed2, openTimeAt(now), now),
    nextFit: (from, durationMs2, now = from, earlier = 0, eachMs = durationMs2) => {
      let left = earlier;
      for (const { fromMs, toMs } of openTimeAt(now).open) {
        if (toMs <= from) continue;
        const start = Math.max(from, fromMs);
        const fitting = Math.max(0, 1 + Math.floor((toMs - start - durationMs2) / eachMs));
        if (left < fitting) return start + left * eachMs;
        left -= fitting;
      }
      return void 0;
    }
  };
}
function openTimeFrom(dayMs, { timeZone: timeZone2, windows }, closed2) {
  const always2 = windows.length === 0;
  const intervals = always2 ? [{ fromMs: -Infinity, toMs: Infinity }] : [];
  let horizonMs = always2 ? Infinity : dayMs;
  const windowsOf = distinct(windows).map((window2) => windowsOn(window2));
  const longestMs = Math.max(0, ...windows.map(({ durationMs: durationMs2 }) => durationMs2));
  for (const day of localDays(timeZone2, dayMs - longestMs)) {
    if (horizonMs >= dayMs + HORIZON_DAYS * DAY_MS2 || intervals.length >= MAX_WINDOWS) break;
    const ofDay = merge(windowsOf.flatMap((windowsOfDay) => windowsOfDay(day)));
    intervals.push(...ofDay.filter(({ toMs }) => toMs > dayMs));
    horizonMs = day.toMs;
  }
  return {
    dayMs,
    horizonMs,
    open: subtract(merge(intervals), merge([...closed2, { fromMs: horizonMs, toMs: Infinity }]))
  };
}
function distinct(windows) {
  return [...new Map(windows.map((window2) => [keyOf2(window2), window2])).values()];
}
function keyOf2({ schedule, days, durationMs: durationMs2 }) {
  return JSON.stringify([schedule.trim().split(/\s+/u), days.toSorted(), durationMs2]);
}
function stateAt({ windows, blackouts }, closed2, { open, horizonMs }, now) {
  const [opening, blackout2] = [open, closed2].map((intervals) => intervals.find(({ toMs }) => toMs > now));
  const known = (time2 = Infinity) => time2 < horizonMs ? time2 : void 0;
  if (opening !== void 0 && opening.fromMs <= now) {
    const reason2 = windows.length === 0 ? "NoWindows" : "InWindow";
    return { open: true, reason: reason2, until: known(opening.toMs), blackout: void 0 };
  }
  if (blackout2 !== void 0 && blackout2.fromMs <= now) {
    const inEffect = blackouts.filter(({ fromMs, toMs }) => fromMs <= now && now < toMs);
    const last = inEffect.toSorted((a, b) => b.toMs - a.toMs)[0];
    return { open: false, reason: "Blackout", until: blackout2.toMs, blackout: last };
  }
  const until = known(Math.min(opening?.fromMs ?? Infinity, blackout2?.fromMs ?? Infinity));
  return { open: false, reason: "OutsideWindows", until, blackout: void 0 };
}

// packages/controller/src/policy/policy.ts
var NO_CONFIG = 'it does not exist. The controller creates it within seconds; if it does not, look for "config_create" in its log';
function readPolicy(config, before) {
  if (config === void 0) {
    const policy2 = before ?? { ...read(withDefaults(void 0)), inForce: void 0, pendingChanges: [] };
    return { ...policy2, interrupt: false, problem: NO_CONFIG };
  }
  const misshapen = problemOfShape(config.spec);
  if (misshapen !== void 0) {
    const good2 = config.status?.inForce;
    return { ...lastGood(good2, read(withDefaults(void 0))), problem: misshapen, inForce: good2, pendingChanges: [] };
  }
  const inForce = inForceOf(config);
  const policy = read(inForce.spec);
  const pendingChanges2 = differences(inForce.spec, withDefaults(config.spec));
  if (policy.problem === void 0) return { ...policy, inForce, pendingChanges: pendingChanges2 };
  const own2 = { generation: inForce.generation, spec: withDefaults(config.spec) };
  const ownPolicy = read(own2.spec);
  if (ownPolicy.problem === void 0) return { ...ownPolicy, inForce: own2, pendingChanges: [] };
  const good = config.status?.inForce;
  return { ...lastGood(good, ownPolicy), problem: ownPolicy.problem, inForce: good, pendingChanges: [] };
}
function policyWith(policy, spec) {
  const { inForce, pendingChanges: pendingChanges2, paused: paused3, pauseMode, pauseReason } = policy;
  const changed3 = read(spec);
  return {
    ...changed3,
    inForce,
    pendingChanges: pendingChanges2,
    ...paused3 && { paused: paused3, pauseMode, pauseReason },
    interrupt: policy.interrupt || changed3.interrupt,
    resumes: [...policy.resumes, ...changed3.resumes],
    problem: policy.problem ?? changed3.problem
  };
}
function lastGood(good, own2) {
  const { paused: paused3, pauseReason } = own2;
  if (good === void 0) return { ...own2, pauseMode: "Finish", interrupt: false };
  const before = read(good.spec);
  if (!paused3 || before.paused) return before;
  return { ...before, paused: paused3, pauseMode: "Finish", interrupt: false, pauseReason };
}
var NEVER_OPEN = {
  at: () => ({ open: false, reason: "OutsideWindows", until: void 0, blackout: void 0 }),
  nextFit: () => void 0
};
var OF_CALENDAR = /^spec\.maintenance(?::|\.(?:timeZone|windows|blackouts))/u;
function read(spec) {
  const { value: value2, problems } = readConfigSpec(spec);
  const { maintenance, nodeSelector: nodeSelector2, paused: paused3, pauseMode, rollout: rollout2, versions } = value2;
  const unusable = problemOf(maintenance);
  const isClosed = unusable !== void 0 || problems.some((problem) => OF_CALENDAR.test(problem));
  const drain = drainSettingsOf(value2);
  return {
    ...value2,
    source: spec,
    drain,
    drainMs: drain.exclusionMs + drain.timeoutMs + (drain.onTimeout === "Force" ? FORCE_LIMIT_MS : 0),
    interrupt: paused3 && pauseMode === "Interrupt",
    calendar: isClosed ? NEVER_OPEN : calendarOf(maintenance),
    settings: settingsOfVersions(versions),
    nodeSelector: nodeSelector2,
    resumes: rollout2.resumeMs === void 0 ? [] : [rollout2.resumeMs],
    problem: problems[0] ?? (unusable && `spec.${unusable}`)
  };
}
function settingsOfVersions({ pin, ignoreWaves }) {
  const own2 = { owner: CONFIG_KIND, force: true };
  return [
    ...pin === void 0 ? [] : [{ key: VERSION_LOCK, value: JSON.stringify(pin), ...own2 }],
    ...ignoreWaves ? [{ key: IGNORE_WAVES, value: "true", ...own2 }] : []
  ];
}
function isWanted(version3, { pin, deny }) {
  if (deny.some((one) => sameVersion(one, version3))) return false;
  return pin === void 0 || sameVersion(pin, version3);
}
function isAtOrBeyond(running, version3, { pin }) {
  return sameVersion(running, version3) || isLater(running, version3) && !sameVersion(pin, version3);
}
function wantedVersion(offered, { pin }) {
  return pin ?? offered;
}
function nodesAtOnce(limit, managed2) {
  return "nodes" in limit ? limit.nodes : Math.max(1, Math.floor(managed2 * limit.percent / 100));
}

// packages/controller/src/policy/rendered.ts
function render({
  nodeMetadata: { labels, annotations, taints, conflicts },
  settings: settings2
}) {
  return {
    conflicts,
    labels: sorted(labels),
    annotations: sorted(annotations),
    taints: taints.toSorted(byId),
    settings: sorted(Object.fromEntries(leavesOf(settings2)))
  };
}
function sorted(values2) {
  return Object.fromEntries(Object.entries(values2).toSorted(([a], [b]) => a < b ? -1 : 1));
}
function byId(a, b) {
  return taintId(a) < taintId(b) ? -1 : 1;
}
function recordOf({ metadata: { generation = 0 }, status }, { rendering, problem }) {
  const before = readRendered(status);
  if (problem !== void 0 || before?.generation === generation) return before;
  const isDone = before !== void 0 && status?.confirmedGeneration === before.generation;
  return { generation, ...rendering, dropped: dropped(before, rendering, isDone) };
}
function dropped(before, now, isDone) {
  const [old, earlier, kept] = [keysIn(before), isDone ? void 0 : before?.dropped, keysIn(now)];
  const of = (field2) => {
    const all = /* @__PURE__ */ new Set([...old[field2], ...earlier?.[field2] ?? []]);
    return [...all].filter((key2) => !kept[field2].includes(key2)).toSorted();
  };
  return { labels: of("labels"), annotations: of("annotations"), taints: of("taints") };
}
function keysIn(rendering) {
  const { labels = {}, annotations = {}, taints = [] } = rendering ?? {};
  return { labels: Object.keys(labels), annotations: Object.keys(annotations), taints: taints.map(taintId) };
}
function knownKeys(rendered) {
  const kept = keysIn(rendered);
  const both = (field2) => /* @__PURE__ */ new Set([...kept[field2], ...rendered?.dropped[field2] ?? []]);
  return { labels: both("labels"), annotations: both("annotations"), taints: both("taints") };
}
function isEmpty(rendered, isObserved2) {
  const kept = keysIn(rendered);
  const lists = [kept, ...isObserved2 || rendered?.dropped === void 0 ? [] : [rendered.dropped]];
  return lists.every(({ labels, annotations, taints }) => labels.length + annotations.length + taints.length === 0);
}
function pendingRendering(recorded2, rendering) {
  if (recorded2 === void 0) return [];
  const { settings: settings2, ...metadata13 } = rendering;
  const { conflicts, labels, annotations, taints } = recorded2;
  return [
    ...differences({ conflicts, labels, annotations, taints }, metadata13, "nodeMetadata"),
    ...differences(recorded2.settings, settings2)
  ];
}

// packages/controller/src/policy/settings.ts
function requestedSettings(group2, rules, { settings: settings2 }) {
  const leaves2 = [...leavesOf(rules.settings)];
  const problem = problemOfKeys(leaves2.map(([key2]) => key2)) ?? problemOfLength(leaves2);
  if (problem !== void 0) return { own: [], problem };
  const by = { owner: `${NODE_GROUP_KIND}/${group2}`, ...rules.settingsConflicts === "Force" && { force: true } };
  return { own: Object.entries(settings2).map(([key2, value2]) => ({ key: key2, value: value2, ...by })) };
}
function problemOfKeys(keys4) {
  const badKey = keys4.find((key2) => !is2(settingKey, key2));
  if (badKey !== void 0)
    return `spec.settings: expected names of letters, digits, dots, slashes, dashes and underscores, found ${String(badKey)}`;
  const reserved = keys4.find((key2) => UPDATER_SETTINGS.some((one) => overlaps(key2, one.slice("settings.".length))));
  if (reserved !== void 0) return `spec.settings: expected ${reserved} to be set by spec.versions, found it here`;
  const secret = keys4.find((key2) => isSecret(key2));
  if (secret !== void 0)
    return `spec.settings: expected settings without secrets, since their values can be read here, found ${secret}: remove it here, replace the secret, and let a bootstrap container set it`;
  return void 0;
}
var MOST = MAX_LEAVES - UPDATER_SETTINGS.length;
function problemOfLength(leaves2) {
  const [long] = leaves2.find(([, value2]) => value2.length > MAX_VALUE) ?? [];
  if (long !== void 0) return `spec.settings: expected at most ${MAX_VALUE} characters, found more in ${long}`;
  const length = leaves2.reduce((sum, [, value2]) => sum + value2.length, 0);
  if (leaves2.length > MOST || length > MAX_SETTINGS) {
    const found = `${leaves2.length} with ${length} characters`;
    return `spec.settings: expected at most ${MOST} settings with ${MAX_SETTINGS} characters together, found ${found}`;
  }
  return void 0;
}

// packages/controller/src/policy/node-groups.ts
var LANES = {
  budget: ["failureBudget"],
  canaries: ["canary", "soak", "approval", "approvedVersion"],
  progress: ["progressDeadline"]
};
function objectOf(group2) {
  return group2 === void 0 ? `${CONFIG_KIND} "${CONFIG_NAME}"` : `${NODE_GROUP_KIND} "${group2}"`;
}
function readNodeGroups(groups, config) {
  const read2 = groups.map((group2) => readGroup(group2, config));
  const byName5 = new Map(read2.map((group2) => [group2.name, group2]));
  const readers = readersOf(read2, config);
  return read2.map((group2) => withProblem(group2, orderProblem(group2, byName5))).map((group2) => withProblem(group2, labelProblem(group2, readers) ?? protectionProblem(group2))).toSorted((a, b) => b.precedence - a.precedence || (a.name < b.name ? -1 : 1));
}
function groupOf(labels, groups, began) {
  if (began !== void 0) return groups.find(({ name }) => name === began);
  return groups.find(({ selector }) => selects(selector, labels));
}
function readGroup(object3, config) {
  const { spec, metadata: metadata13 } = object3;
  const { value: value2, problems } = readNodeGroupRules(object3);
  const { nodeSelector: nodeSelector2, precedence, after, soakMs } = value2;
  const both = overridden(config.source, spec);
  const merged3 = policyWith(config, both);
  const policy = readConfigSpec(both).problems.length === 0 ? merged3 : withoutMistakes(config, merged3);
  const found = renderingOf(object3, render(value2));
  const settings2 = requestedSettings(metadata13.name, value2, found.inForce);
  const missing2 = nodeSelector2 === void 0 ? "spec.nodeSelector: expected a selector of nodes, found none" : void 0;
  const group2 = {
    name: metadata13.name,
    uid: metadata13.uid,
    generation: metadata13.generation ?? 0,
    // One that is not completely readable would select more nodes than its author wants.
    selector: problems.some((problem) => problem.startsWith("spec.nodeSelector")) ? void 0 : nodeSelector2,
    precedence,
    after,
    soakMs,
    concurrency: own(merged3.concurrency, spec?.concurrency),
    policy: withSettings2(policy, settings2.own),
    pauses: pausesItself(merged3, config),
    lanes: lanesIn(spec),
    rendering: found.rendering,
    rendered: found.rendered,
    pendingChanges: found.pendingChanges,
    problem: void 0
  };
  const mistake = config.problem === void 0 ? merged3.problem : void 0;
  return withProblem(group2, problems[0] ?? missing2 ?? settings2.problem ?? mistake);
}
function withSettings2(policy, own2) {
  return own2.length === 0 ? policy : { ...policy, settings: [...policy.settings, ...own2] };
}
function renderingOf({ metadata: metadata13, status }, rendering) {
  const rendered = readRendered(status);
  const recorded2 = rendered?.generation === metadata13.generation ? rendered : void 0;
  return { rendering, rendered, inForce: recorded2 ?? rendering, pendingChanges: pendingRendering(recorded2, rendering) };
}
function withoutMistakes(config, readable2) {
  const { maintenance, calendar, versions, paused: paused3, pauseReason, rollout: rollout2, resumes } = readable2;
  return { ...config, maintenance, calendar, versions, paused: paused3, pauseReason, rollout: rollout2, resumes };
}
function own(concurrency, given) {
  const names = namesSet(given);
  return Object.fromEntries(Object.entries(concurrency).filter(([name]) => names.includes(name)));
}
function namesSet(given) {
  return Object.entries(isFields(given) ? given : {}).flatMap(([name, value2]) => value2 == null ? [] : name);
}
function pausesItself({ paused: paused3 }, fleet) {
  return paused3 && !fleet.paused;
}
function lanesIn(spec) {
  const names = namesSet(isFields(spec) ? spec["rollout"] : void 0);
  const lanes = Object.entries(LANES);
  return new Set(lanes.flatMap(([lane, fields2]) => fields2.some((name) => names.includes(name)) ? lane : []));
}
function withProblem(group2, problem) {
  if (problem === void 0 || group2.problem !== void 0) return group2;
  const shown = `${NODE_GROUP_KIND} "${group2.name}": ${problem}`;
  return { ...group2, problem, policy: { ...group2.policy, problem: group2.policy.problem ?? shown } };
}
function orderProblem({ name, after }, groups) {
  const missing2 = after.find((one) => !groups.has(one));
  if (missing2 !== void 0)
    return `spec.after: expected the name of a ${NODE_GROUP_KIND} that exists, found "${missing2}"`;
  const reached = /* @__PURE__ */ new Set();
  const reach = (from) => {
    for (const one of from.filter((next) => !reached.has(next))) {
      reached.add(one);
      reach(groups.get(one)?.after ?? []);
    }
  };
  reach(after);
  return reached.has(name) ? "spec.after: expected groups that do not wait for this one, found a cycle" : void 0;
}
function readersOf(groups, { nodeSelector: nodeSelector2, rollout: rollout2 }) {
  const selectors = [
    ...groups.flatMap(({ name, selector, policy }) => {
      const of = `of the ${NODE_GROUP_KIND} "${name}"`;
      const { nodeSelector: ofCanaries } = policy.rollout.canary;
      return [
        [selector, `spec.nodeSelector ${of}`],
        [ofCanaries, `spec.rollout.canary.nodeSelector ${of}`]
      ];
    }),
    [nodeSelector2, `spec.nodeSelector of the ${CONFIG_KIND}`],
    [rollout2.canary.nodeSelector, `spec.rollout.canary.nodeSelector of the ${CONFIG_KIND}`]
  ];
  return new Map(
    selectors.flatMap(([selector, reader]) => keysOf(selector ?? {}).map((key2) => [key2, reader]))
  );
}
function labelProblem({ rendering }, readers) {
  const found = Object.keys(rendering.labels).find((key2) => readers.has(key2));
  if (found === void 0) return void 0;
  return `spec.nodeMetadata.labels: expected keys that no selector of nodes reads, found "${found}", which ${readers.get(found) ?? ""} reads`;
}
function protectionProblem({ selector, rendering }) {
  const found = Object.keys(rendering.labels).find((key2) => key2.startsWith(NODE_RESTRICTION));
  if (found === void 0 || selector === void 0 || isProtectedSelector(selector)) return void 0;
  return `spec.nodeMetadata.labels: expected no keys of ${NODE_RESTRICTION} unless kubelets can set none of the labels in spec.nodeSelector, found "${found}"`;
}

// packages/controller/src/cluster/policies.ts
function rulesFor({ node, shadow: shadow2 }, { fleet, groups }) {
  const began = shadow2 !== void 0 && holdsGroup(shadow2) ? groupAtStart(shadow2) : void 0;
  const group2 = node === void 0 ? void 0 : groupOf(node.metadata.labels ?? {}, groups, began);
  return { group: group2, policy: group2?.policy ?? fleet };
}

// packages/controller/src/cluster/unchanged-nodes.ts
var UnchangedNodes = class {
  #before = /* @__PURE__ */ new Map();
  #latest = { of: [], found: [] };
  /** Returns the nodes, each that has not changed as it was returned the last time. */
  recognised(managedNodes) {
    if (managedNodes === this.#latest.of) return this.#latest.found;
    const found = managedNodes.map((one) => {
      const before = this.#before.get(one.name);
      return before !== void 0 && (before === one || isSame(before, one)) ? before : one;
    });
    this.#before = new Map(found.map((one) => [one.name, one]));
    this.#latest = { of: managedNodes, found };
    return found;
  }
};
var JITTER_MS = 1e3;
var isSameTime = (a, b) => a === b || a !== void 0 && b !== void 0 && Math.abs(a - b) < JITTER_MS;
var isSameFormer = (a, b) => a === b || a?.startedAt === b?.startedAt && isSameTime(a?.slotUntil, b?.slotUntil);
var SAME = {
  name: (a, b) => a.name === b.name,
  node: (a, b) => a.node === b.node,
  shadow: (a, b) => a.shadow === b.shadow,
  group: (a, b) => a.group === b.group,
  policy: (a, b) => a.policy === b.policy,
  leaseExpired: (a, b) => a.leaseExpired === b.leaseExpired,
  writeRejection: (a, b) => a.writeRejection === b.writeRejection,
  writeFailure: (a, b) => a.writeFailure === b.writeFailure,
  missingSince: (a, b) => isSameTime(a.missingSince, b.missingSince),
  cordonedSince: (a, b) => isSameTime(a.cordonedSince, b.cordonedSince),
  evictedSince: (a, b) => isSameTime(a.evictedSince, b.evictedSince),
  settingsSince: (a, b) => isSameTime(a.settingsSince, b.settingsSince),
  former: (a, b) => isSameFormer(a.former, b.former)
};
var COMPARISONS = Object.values(SAME);
var isSame = (a, b) => COMPARISONS.every((isSameField) => isSameField(a, b));

// packages/controller/src/cluster/suspended-policies.ts
var SuspendedPolicies = class {
  /** By the policy without a loss; only those of the latest snapshot. */
  #known = /* @__PURE__ */ new Map();
  /** @param fleet - the policy of the configuration */
  of(managedNodes, fleet, connectivity) {
    const used = /* @__PURE__ */ new Map();
    const wasNeverLost = connectivity.lostUntil === 0 && connectivity.zones.size === 0;
    const withPolicy = (one) => {
      const policy2 = this.#suspended(one.policy, lossOf(connectivity, one.node), used);
      return policy2 === one.policy ? one : { ...one, policy: policy2 };
    };
    const found = wasNeverLost ? managedNodes : managedNodes.map(withPolicy);
    const policy = this.#suspended(fleet, connectivity, used);
    this.#known = used;
    return { managedNodes: found, policy };
  }
  #suspended(policy, loss, used) {
    if (loss.lostUntil === 0) return policy;
    const ofPolicy = used.get(policy) ?? [];
    const inUse = ofPolicy.find((one) => isSame2(one.loss, loss));
    if (inUse !== void 0) return inUse.policy;
    const before = this.#known.get(policy)?.find((one) => isSame2(one.loss, loss));
    const made = before ?? { loss, policy: suspend(policy, loss) };
    used.set(policy, [...ofPolicy, made]);
    return made.policy;
  }
};
function isSame2(a, b) {
  return a.lost === b.lost && a.isOff === b.isOff && isSameTime(a.lostUntil, b.lostUntil);
}
function suspend(policy, { lost, lostUntil, isOff: isOff2 }) {
  return { ...policy, isSuspended: lost, deadlinesFrom: lostUntil, ...isOff2 && { isZoneOff: isOff2 } };
}

// packages/controller/src/cluster/probes.ts
var v19 = __toESM(require("valibot"), 1);
function keyOf3(probe) {
  return JSON.stringify(probe);
}
var LIMITS = { timeoutMs: 1e4, maxBytes: 1024 * 1024 };
var sample = v19.tuple([v19.number("a time"), v19.string("a value")], "a time and a value");
var series = object2({ metric: v19.record(v19.string("a label"), v19.string("a text"), "labels"), value: sample });
var answer = object2({
  data: v19.variant(
    "resultType",
    [
      object2({ resultType: v19.literal("scalar", "scalar"), result: sample }),
      object2({ resultType: v19.literal("vector", "vector"), result: v19.array(series, "a list") })
    ],
    "a scalar or a vector"
  )
});
var alert = object2({ labels: v19.record(v19.string("a label"), v19.string("a text"), "labels") });

// packages/controller/src/plan/capacity.ts
var Capacity = class {
  #concurrency;
  /** Percentages are of this number of nodes. */
  #managed;
  #stuck;
  #fleet = { updating: 0, unavailable: 0 };
  #zones = /* @__PURE__ */ new Map();
  /** @param stuck - the nodes that hold a slot past a deadline */
  constructor(concurrency, managed2, stuck) {
    this.#concurrency = concurrency;
    this.#managed = managed2;
    this.#stuck = stuck;
  }
  reserve(node, updating2) {
    this.#count(node, 1, updating2);
  }
  /** No longer counts an updating node, which remains available. */
  release(node) {
    this.#count(node, -1, true);
  }
  /**
   * Returns why this node must not start, or undefined. The messages contain no counts, so that a
   * step of one node does not rewrite the conditions of all that wait; nodes that are stuck are named.
   */
  check(node) {
    const zone = this.#zone(node);
    if (this.#free <= 0) return naming(FULL, this.#stuck);
    if (this.#fleet.unavailable >= this.#maxUnavailable) return naming(UNAVAILABLE, this.#stuck);
    if (zone.unavailable >= (this.#concurrency.maxPerZone ?? Infinity)) {
      return naming(
        ZONE_FULL,
        this.#stuck.filter((other) => zoneOf(other) === zoneOf(node))
      );
    }
    const isFull = this.#zonesWith(zone) > (this.#concurrency.maxZones ?? Infinity);
    return isFull ? naming(OTHER_ZONES, this.#stuck) : void 0;
  }
  /** True when a limit is exceeded, and releasing this node would help. */
  isOverLimit(node) {
    const { maxPerZone = Infinity } = this.#concurrency;
    return this.#free < 0 || this.#fleet.unavailable > this.#maxUnavailable || this.#zone(node).unavailable > maxPerZone;
  }
  #count(node, by, updating2) {
    const zone = this.#zone(node);
    this.#zones.set(zoneOf(node), zone);
    for (const count2 of [this.#fleet, zone]) {
      count2.unavailable += by;
      if (updating2) count2.updating += by;
    }
  }
  /** Slots left under maxUpdating; negative if there are too many nodes. */
  get #free() {
    const { maxUpdating } = this.#concurrency;
    return (maxUpdating === void 0 ? Infinity : nodesAtOnce(maxUpdating, this.#managed)) - this.#fleet.updating;
  }
  get #maxUnavailable() {
    const { maxUnavailable } = this.#concurrency;
    return maxUnavailable === void 0 ? Infinity : nodesAtOnce(maxUnavailable, this.#managed);
  }
  #zonesWith({ updating: updating2 }) {
    const others = [...this.#zones.values()].filter((zone) => zone.updating > 0).length;
    return updating2 > 0 ? others : others + 1;
  }
  #zone(node) {
    return this.#zones.get(zoneOf(node)) ?? { updating: 0, unavailable: 0 };
  }
};
var Limits = class {
  #fleet;
  #groups;
  /** @param groups - those with limits of their own, by name */
  constructor(fleet, groups) {
    this.#fleet = fleet;
    this.#groups = groups;
  }
  reserve(member, updating2) {
    for (const capacity2 of this.#of(member)) capacity2.reserve(member.node, updating2);
  }
  release(member) {
    for (const capacity2 of this.#of(member)) capacity2.release(member.node);
  }
  /** As {@link Capacity.check}, of the fleet first. */
  check({ node, group: group2 }) {
    const ofFleet = this.#fleet.check(node);
    if (ofFleet !== void 0) return ofFleet;
    const ofGroup = this.#groupOf(group2)?.check(node);
    return ofGroup && { ...ofGroup, message: `In ${NODE_GROUP_KIND} "${group2?.name}": ${ofGroup.message}` };
  }
  isOverLimit(member) {
    return this.#of(member).some((capacity2) => capacity2.isOverLimit(member.node));
  }
  #of({ group: group2 }) {
    return [this.#fleet, this.#groupOf(group2)].filter((capacity2) => capacity2 !== void 0);
  }
  #groupOf(group2) {
    return group2 && this.#groups.get(group2.name);
  }
};
var FULL = {
  reason: "WaitingForCapacity",
  message: "As many nodes are updating as concurrency.maxUpdating allows"
};
var UNAVAILABLE = {
  reason: "MaxUnavailableReached",
  message: "As many nodes are updating or unavailable for other reasons as concurrency.maxUnavailable allows"
};
var ZONE_FULL = {
  reason: "WaitingForZone",
  message: "As many nodes of its zone are updating or unavailable as concurrency.maxPerZone allows"
};
var OTHER_ZONES = {
  reason: "WaitingForZone",
  message: "Nodes are updating in as many other zones as concurrency.maxZones allows"
};
function naming(blocked3, stuck) {
  if (stuck.length === 0) return blocked3;
  return { ...blocked3, message: `${blocked3.message}; ${describeStuck(stuck.map(({ metadata: { name } }) => name))}` };
}
function describeStuck(nodes) {
  const slots = nodes.length === 1 ? "holds its update slot" : "hold their update slots";
  return `${namesOf(nodes)} missed a deadline or failed a check, and still ${slots}`;
}
function isUnavailable(node) {
  return node.unschedulable || isDown(node);
}
function nodesOverLimit(updating2, limits) {
  const names = /* @__PURE__ */ new Set();
  for (const pair of updating2.filter(isPair).filter(canStay).toSorted(byProgress)) {
    if (!limits.isOverLimit(pair)) continue;
    limits.release(pair);
    names.add(pair.name);
  }
  return names;
}
function canStay({ node, shadow: shadow2 }) {
  return isStaging(shadow2) && !isUnavailable(node);
}
function byProgress(a, b) {
  return Number(hasReached(a.shadow)) - Number(hasReached(b.shadow)) || (a.name < b.name ? 1 : -1);
}
var ControlPlane = class {
  #nodes;
  /** Names of those that hold an update slot, those that start in this plan included. */
  #updating;
  /** Names of those whose drain has begun, those that begin it in this plan included. */
  #drained;
  /**
   * @param nodes - all nodes of the cluster
   * @param slots - the nodes that hold an update slot
   */
  constructor(nodes, slots) {
    const holders = [...slots];
    this.#nodes = nodes.filter(isControlPlane);
    const cordoned2 = this.#nodes.filter(ownedByUs).map(({ metadata: { name } }) => name);
    this.#updating = /* @__PURE__ */ new Set([...holders.map(({ name }) => name), ...cordoned2]);
    this.#drained = /* @__PURE__ */ new Set([...holders.filter(isDisrupted).map(({ name }) => name), ...cordoned2]);
  }
  /** Returns why this node must not start its update, or restart its services. */
  whyNotStarted(asked) {
    return this.#check(asked, this.#updating);
  }
  /** Returns why this node, which is staged, must not be drained. */
  whyNotDrained(asked) {
    return this.#check(asked, this.#drained);
  }
  starts({ metadata: { name } }) {
    this.#updating.add(name);
  }
  drains({ metadata: { name } }) {
    this.#drained.add(name);
  }
  #check({ node, policy }, busy) {
    if (policy.concurrency.controlPlane === "Ignored" || !isControlPlane(node)) return void 0;
    const others = this.#nodes.filter(({ metadata: { name } }) => name !== node.metadata.name);
    const down = namesOf(others.filter(isDown).map(({ metadata: { name } }) => name));
    if (down !== "") return blocked(`not Ready or being deleted: ${down}`);
    const updating2 = namesOf(others.map(({ metadata: { name } }) => name).filter((name) => busy.has(name)));
    return updating2 === "" ? void 0 : blocked(`updating: ${updating2}`);
  }
};
function blocked(why) {
  const message = `Nodes of the control plane update one at a time, and only while all others are Ready (spec.concurrency.controlPlane). Others of them are ${why}`;
  return { reason: "WaitingForControlPlane", message };
}
function isDisrupted({ shadow: shadow2 }) {
  return shadow2 !== void 0 && STATES[shadow2.state].isDisrupted;
}

// packages/controller/src/plan/facts/jobs.ts
var import_node_crypto2 = require("node:crypto");

// packages/controller/src/cluster/checks.ts
var v21 = __toESM(require("valibot"), 1);

// packages/controller/src/cluster/refusals.ts
var v20 = __toESM(require("valibot"), 1);
var text4 = v20.string("a text");
var event = object2({
  message: v20.exactOptional(text4),
  firstTimestamp: v20.nullish(text4),
  lastTimestamp: v20.nullish(text4)
});

// packages/controller/src/cluster/checks.ts
var JOB_RESULTS = ["Succeeded", "Failed", "TimedOut", "Gone"];
var JOB_SLACK_MS = 6e4;
function isResult(state2) {
  return JOB_RESULTS.some((one) => one === state2);
}
var text5 = v21.string("a text");
var job2 = object2({
  metadata: object2({
    name: text5,
    uid: text5,
    annotations: v21.exactOptional(v21.record(text5, text5, "annotations")),
    ownerReferences: v21.exactOptional(v21.array(object2({ kind: text5, name: text5 }), "a list"))
  }),
  status: v21.exactOptional(
    object2({
      conditions: v21.exactOptional(
        v21.array(object2({ type: text5, status: text5, reason: v21.exactOptional(text5) }), "a list")
      ),
      active: v21.exactOptional(v21.number()),
      succeeded: v21.exactOptional(v21.number()),
      failed: v21.exactOptional(v21.number())
    })
  )
});

// packages/controller/src/plan/facts/quorum-members.ts
function isSelectedBy({ namespace, podSelector: podSelector2 }, pod) {
  const { metadata: metadata13, finished, isLabelled } = pod;
  return !finished && metadata13.namespace === namespace && (!isLabelled || selects(podSelector2, metadata13.labels ?? {}));
}
function countsStaticPods({ nodeSelector: nodeSelector2 }, node) {
  return nodeSelector2 !== void 0 && node !== void 0 && selects(nodeSelector2, node.metadata.labels ?? {});
}
function membersAmong(quorum2, pods, nodes) {
  const selected2 = pods.filter((pod) => isSelectedBy(quorum2, pod));
  const static_ = selected2.filter(({ mirror, node }) => mirror && countsStaticPods(quorum2, nodes.get(node)));
  const ofNodes = [...Map.groupBy(static_, ({ node }) => node).values()].map((same2) => {
    const members2 = same2.map((pod) => memberOf(quorum2, pod)).toSorted((a, b) => a.pod < b.pod ? -1 : 1);
    return members2.find(({ problem }) => problem !== void 0) ?? members2[0];
  });
  const others = selected2.filter(({ mirror }) => !mirror).map((pod) => memberOf(quorum2, pod));
  return [...others, ...ofNodes.filter((one) => one !== void 0)].toSorted((a, b) => a.pod < b.pod ? -1 : 1);
}
function memberOf({ last }, pod) {
  const isLast = last !== void 0 && selects(last, pod.metadata.labels ?? {});
  return { pod: podKey(pod), node: pod.node, isLast, problem: problemOf2(pod) };
}
function problemOf2(pod) {
  if (isTerminating(pod)) return "is being deleted";
  if (pod.node === "") return "is not scheduled";
  return pod.ready ? void 0 : "is not Ready";
}
function whyAway(member, nodes, busy) {
  const { pod, node: name, problem } = member;
  const node = nodes.get(name);
  if (name === "") return `${pod} ${problem}`;
  const subject = `${pod} on ${name}`;
  if (busy.has(name)) return `${subject}, which is updating`;
  if (problem !== void 0) return `${subject} ${problem}`;
  if (node === void 0) return `${subject}, which does not exist any more`;
  return isDown(node) ? `${subject}, which is not Ready or is being deleted` : void 0;
}
var COUNTS_MS = 15e3;
var MAX_WAIT_MS = 6e5;
var QuorumLists = class {
  #view;
  #nodes;
  #now;
  #requested = /* @__PURE__ */ new Map();
  #members = /* @__PURE__ */ new Map();
  constructor(view, nodes, now) {
    this.#view = view;
    this.#nodes = nodes;
    this.#now = now;
  }
  /** By the latest list. */
  membersOf(quorum2) {
    const known = this.#members.get(quorum2);
    const members2 = known ?? membersAmong(quorum2, this.known(quorum2)?.pods ?? [], this.#nodes);
    this.#members.set(quorum2, members2);
    return members2;
  }
  /** The latest list, which is needed. */
  request(quorum2) {
    const key2 = membersKey(quorum2);
    this.#requested.set(key2, quorum2);
    return this.#view.get(key2);
  }
  /** The same of a set whose list is not needed therefore. */
  known(quorum2) {
    return this.#view.get(membersKey(quorum2));
  }
  /** True for a list that lets a node go. The clock may have been set back. */
  counts(list2) {
    const { asOf, problem } = list2 ?? {};
    return problem === void 0 && asOf !== void 0 && this.#now - asOf <= COUNTS_MS && asOf <= this.#now;
  }
  /** What to do with the lists. */
  get wanted() {
    const list2 = [...this.#requested].flatMap(([key2, quorum2]) => {
      const { nextAt = 0 } = this.#view.get(key2) ?? {};
      const isDue = this.#now >= nextAt || nextAt - this.#now > MAX_WAIT_MS;
      return isDue ? [{ ...quorum2, staticOn: this.#nodesWithStatic(quorum2) }] : [];
    });
    return { list: list2, keep: new Set(this.#requested.keys()) };
  }
  /** When members must be listed again, epoch milliseconds. */
  get times() {
    return [...this.#requested.keys()].flatMap((key2) => this.#view.get(key2)?.nextAt ?? []);
  }
  #nodesWithStatic(quorum2) {
    if (quorum2.nodeSelector === void 0) return [];
    return [...this.#nodes.values()].filter((node) => countsStaticPods(quorum2, node)).map((one) => one.metadata.name);
  }
};
var MAX_NAMED2 = 3;
var MAX_TEXT = 500;
function whoIs(node, own2) {
  return own2.length === 0 ? `the missing member of ${node}` : `${own2.map(({ pod }) => pod).join(", ")} on ${node}`;
}
function describe2(away, missing2, n) {
  const lost = missing2 > 0 ? [`${missing2} of ${n} members ${missing2 === 1 ? "is" : "are"} missing`] : [];
  const all = [...away, ...lost];
  const more = all.length > MAX_NAMED2 ? `; ${all.length - MAX_NAMED2} more` : "";
  return shorten(`${all.slice(0, MAX_NAMED2).join("; ")}${more}`, MAX_TEXT);
}
function notListed({ name }, problem) {
  return shorten(`The members of the quorum ${name} cannot be listed: ${problem}`, MAX_TEXT);
}
function whyTooFew(quorum2, count2) {
  const { name, tolerate, downtime } = quorum2;
  const { node, n, own: own2, away, missing: missing2, isOwnMissing } = count2;
  if (own2.length === 0 && !isOwnMissing) return void 0;
  const others = away.length + missing2;
  const who = whoIs(node, own2);
  if (others > tolerate) {
    const message = `The quorum ${name} cannot do without ${who}: ${describe2(away, missing2, n)}`;
    return atRisk(message);
  }
  const isExempt = n <= 2 && downtime === "Allowed";
  const left = n - others - Math.max(own2.length, 1);
  if (isExempt || left >= majorityOf(n)) return void 0;
  const next = n <= 2 ? ". If it may stop meanwhile, set its downtime to Allowed" : "";
  return atRisk(
    `The quorum ${name} cannot do without ${who}: ${left} of ${n} members would be left, and ${majorityOf(n)} are needed${next}`
  );
}
function whyUncountable(quorum2, pods) {
  if (quorum2.nodeSelector !== void 0) return void 0;
  const found = pods.find((pod) => pod.mirror && isSelectedBy(quorum2, pod));
  if (found === void 0) return void 0;
  return atRisk(
    `The quorum ${quorum2.name} selects ${podKey(found)} on ${found.node}, which is a static pod: set its nodeSelector to the nodes on which static pods count, or select other pods`
  );
}
function atRisk(message) {
  return { reason: "QuorumAtRisk", message: shorten(message, MAX_TEXT) };
}
var MAX_RECORDED = 10;
function recordedMembers({ record: record9 }) {
  return record9.members ?? [];
}
var QuorumRecords = class {
  #quorums;
  #nodes;
  #lists;
  constructor(quorums2, nodes, lists) {
    this.#quorums = quorums2;
    this.#nodes = nodes;
    this.#lists = lists;
  }
  /** What is recorded of a node when its update starts. */
  recordOf({ node, pods }) {
    return this.#quorums.flatMap(
      (quorum2) => this.#membersOn(quorum2, node, pods).slice(0, MAX_RECORDED).map(({ pod }) => ({ quorum: quorum2.name, pod: pod.slice(quorum2.namespace.length + 1) }))
    );
  }
  /** The first set with a member on the node that had none there when its update started: its hooks have not run. */
  whyUnrecorded(shadow2, { node, pods }) {
    const recorded2 = new Set(recordedMembers(shadow2).map(({ quorum: quorum2 }) => quorum2));
    for (const quorum2 of this.#quorums) {
      const [found] = recorded2.has(quorum2.name) ? [] : this.#membersOn(quorum2, node, pods);
      if (found === void 0) continue;
      return atRisk(
        `The quorum ${quorum2.name}: ${found.pod} came to ${node.metadata.name} after its update had started, which starts again for it`
      );
    }
    return void 0;
  }
  /**
   * What keeps the recorded members of a node from counting as back; undefined: all are.
   * @param since - when they may have been away last, epoch milliseconds
   */
  whyNotBack(shadow2, since) {
    for (const { quorum: name, pod } of recordedMembers(shadow2)) {
      const quorum2 = this.#quorums.find((one) => one.name === name);
      if (quorum2 === void 0) continue;
      const list2 = this.#lists.request(quorum2);
      if (list2?.problem !== void 0) return { isUnknown: true, problem: notListed(quorum2, list2.problem) };
      if (!this.#lists.counts(list2) || list2.asOf < since) return { isUnknown: true };
      const problem = this.#whyAwayStill(quorum2, `${quorum2.namespace}/${pod}`);
      if (problem !== void 0) return { problem };
    }
    return void 0;
  }
  /** A pod of another name may have replaced it: then as many members as usual have to be there. */
  #whyAwayStill(quorum2, pod) {
    const members2 = this.#lists.membersOf(quorum2);
    const same2 = members2.find((one) => one.pod === pod);
    if (same2 !== void 0) return same2.problem && `the member ${pod} of the quorum ${quorum2.name} ${same2.problem}`;
    const ready3 = members2.filter(({ problem }) => problem === void 0).length;
    const isComplete2 = ready3 >= Math.max(quorum2.members, members2.length) - quorum2.tolerate;
    return isComplete2 ? void 0 : `the member ${pod} of the quorum ${quorum2.name} is missing`;
  }
  #membersOn(quorum2, { metadata: { name } }, pods) {
    return membersAmong(quorum2, pods, this.#nodes).filter(({ node }) => node === name);
  }
};

// packages/controller/src/plan/facts/jobs.ts
function recordsOf({ record: record9 }) {
  return new Map(Object.entries(record9.jobs ?? {}));
}
function written(records) {
  return records.size === 0 ? null : Object.fromEntries(records);
}
function currentAttempt({ metadata: { uid }, record: record9 }) {
  return `${uid}/${record9.startedAt ?? ""}`;
}
function jobsBefore({ shadow: shadow2, policy: { health, hooks } }) {
  const quorums2 = new Set(recordedMembers(shadow2).map(({ quorum: quorum2 }) => quorum2));
  const due = hooks.before.filter(({ quorum: quorum2 }) => quorum2 === void 0 || quorums2.has(quorum2));
  return [checkRuns(shadow2, health.checks, "Before"), ...due.map((hook2) => [hookRun(shadow2, hook2, "Before")])];
}
function jobsAfter({ shadow: shadow2, policy: { health } }) {
  return [checkRuns(shadow2, health.checks, "After")];
}
function hooksAfter({ shadow: shadow2, policy: { hooks } }) {
  const records = recordsOf(shadow2);
  if (isUnderWay(shadow2) || records.size === 0) return [];
  const runs2 = hooks.after.map((hook2) => hookRun(shadow2, hook2, "After"));
  return runs2.filter(({ key: key2 }) => records.has(key2)).map((run) => [run]);
}
function checkRuns(shadow2, checks3, phase2) {
  return checks3.filter(({ when: when2 }) => when2.includes(phase2)).flatMap(
    ({ name, job: job3, timeoutMs }) => job3 === void 0 ? [] : [runOf(shadow2, { name, kind: "check", phase: phase2, cronJob: job3.cronJob, timeoutMs })]
  );
}
function hookRun(shadow2, { name, job: job3, timeoutMs, onTimeout }, phase2) {
  const parts = { name, kind: "hook", phase: phase2, cronJob: job3.cronJob, timeoutMs };
  return { ...runOf(shadow2, parts), proceeds: onTimeout === "Proceed" };
}
function runOf(shadow2, parts) {
  const key2 = `${parts.phase}/${parts.kind}/${parts.name}`;
  const jobOf = `${currentAttempt(shadow2)}/${key2}`;
  const hash2 = (0, import_node_crypto2.createHash)("sha256").update(jobOf).digest("hex").slice(0, 16);
  const records = recordsOf(shadow2);
  const { spec, status } = shadow2;
  const versions = {
    from: records.get("from") ?? status?.current_version ?? "",
    to: records.get("to") ?? spec.version ?? ""
  };
  return {
    ...parts,
    node: nodeOf(shadow2),
    key: key2,
    jobOf,
    jobName: `brupop-${parts.name}-${hash2}`,
    proceeds: false,
    versions
  };
}
var READ_EVERY_MS = 5e3;
function progressOf(groups, input) {
  const runs2 = groups.flat();
  const state2 = (run) => stateOf2(run, input);
  const group2 = groups.find((some) => some.some((run) => !isPassed(run, state2(run)))) ?? [];
  const failing = group2.find((run) => isFailure(run, state2(run)));
  const current = failing === void 0 ? group2.filter((run) => !isPassed(run, state2(run))) : [];
  const { namespace, jobs: jobs2 } = input.checks.view;
  const started3 = current.filter((run) => state2(run) === "Started");
  const found = runs2.filter((run) => isResult(state2(run))).map((run) => [run.key, state2(run) ?? ""]);
  const running = started3.filter((run) => jobs2.get(run.jobName)?.state !== "Creating");
  const readAt = (run) => (jobs2.get(run.jobName)?.seenAt ?? -Infinity) + READ_EVERY_MS;
  return {
    isDone: current.length === 0,
    isStarted: runs2.some((run) => (state2(run) ?? "Due") !== "Due"),
    failed: failing && { run: failing, message: describe3(failing, state2(failing), input) },
    waitsFor: current[0] && waiting(current[0], input),
    start: namespace === "" ? [] : current.filter((run) => !started3.includes(run)),
    create: started3.filter((run) => !running.includes(run)),
    read: running.filter((run) => input.now.reached(readAt(run))),
    records: new Map([...recordsOf(input.shadow), ...found]),
    times: running.map(readAt)
  };
}
function stateOf2(run, { shadow: shadow2, checks: checks3, now }) {
  const recorded2 = recordsOf(shadow2).get(run.key);
  if (isResult(recorded2)) return recorded2;
  const seen = checks3.view.jobs.get(run.jobName);
  if (seen === void 0) return recorded2 === "Started" || recorded2 === "Due" ? recorded2 : void 0;
  const isLate2 = seen.state === "Creating" && now.reached(seen.since + run.timeoutMs + JOB_SLACK_MS + 1);
  if (isLate2) return "TimedOut";
  return isResult(seen.state) ? seen.state : "Started";
}
function isPassed({ proceeds }, state2) {
  return state2 === "Succeeded" || state2 === "TimedOut" && proceeds;
}
function isFailure(run, state2) {
  return isResult(state2) && !isPassed(run, state2);
}
function waiting({ kind, name, jobName }, { checks: { view } }) {
  if (view.namespace === "") return `the ${kind} ${name} needs Jobs, which the chart's value checks.enabled allows`;
  const { problem } = view.jobs.get(jobName) ?? {};
  const why = problem === void 0 ? "" : `: ${problem}`;
  return `the ${kind} ${name} (Job ${view.namespace}/${jobName}) has not ended${why}`;
}
var WHEN2 = { Before: "before the drain", After: "after the update" };
function describe3(run, state2, { checks: { view } }) {
  const { kind, name, jobName, phase: phase2, timeoutMs } = run;
  const job3 = `${view.namespace}/${jobName}`;
  if (state2 === "Gone") return `The Job ${job3} of the ${kind} ${name} was deleted before its result was known`;
  const seen = view.jobs.get(jobName);
  const kept = seen?.problem ?? `see kubectl describe job -n ${view.namespace} ${jobName}, and its logs`;
  const where = seen === void 0 ? `its Job ${job3} no longer exists` : kept;
  const what = state2 === "TimedOut" ? `did not end within ${formatDuration(timeoutMs)}` : "failed";
  return `The ${kind} ${name} ${what} ${WHEN2[phase2]}; ${where}`;
}
function failedJob(input) {
  const groups = [...jobsBefore(input), ...jobsAfter(input)];
  return groups.map((group2) => progressOf([group2], input).failed).find((failed2) => failed2 !== void 0);
}
function hasHooksLeft(input) {
  return hooksAfter(input).length > 0;
}
function withoutHooks(records) {
  const left = [...records].filter(([key2]) => !key2.startsWith("After/hook/"));
  return new Map(left.some(([key2]) => key2.includes("/")) ? left : []);
}
function recordsAtStart({ health, hooks }, from, to) {
  const isNeeded = [...health.checks, ...hooks.before, ...hooks.after].some(({ job: job3 }) => job3 !== void 0);
  return isNeeded ? { from, to } : null;
}
function recordsAtEnd(input) {
  const { shadow: shadow2, policy } = input;
  const { records } = progressOf([...jobsBefore(input), ...jobsAfter(input)], input);
  const failed2 = failedJob(input);
  const wasHooked = [...records.keys()].some((key2) => key2.startsWith("Before/hook/"));
  const mayBeDrained2 = shadow2.spec.state !== "StagedAndPerformedUpdate";
  const due = mayBeDrained2 || wasHooked ? policy.hooks.after.map((hook2) => hookRun(shadow2, hook2, "After").key) : [];
  if (failed2 === void 0 && due.length === 0) return null;
  const kept = ["from", "to", ...failed2 === void 0 ? [] : [failed2.run.key]];
  return written(
    new Map([...[...records].filter(([key2]) => kept.includes(key2)), ...due.map((key2) => [key2, "Due"])])
  );
}
function msBefore({ health, hooks }) {
  return longestOf(health.checks, "Before") + msOf(hooks.before);
}
function msAfter({ health }) {
  return longestOf(health.checks, "After");
}
function msOfHooksAfter({ hooks }) {
  return msOf(hooks.after);
}
function longestOf(checks3, phase2) {
  const times = checks3.filter(({ when: when2, job: job3 }) => when2.includes(phase2) && job3 !== void 0);
  return Math.max(0, ...times.map(({ timeoutMs }) => timeoutMs + JOB_SLACK_MS));
}
function msOf(hooks) {
  return hooks.reduce((sum, { timeoutMs }) => sum + timeoutMs + JOB_SLACK_MS, 0);
}

// packages/controller/src/plan/facts/deadlines.ts
function latestTime(times, now) {
  let latest3;
  for (const time2 of times) {
    if (time2 !== void 0 && now.reached(time2 - CLOCK_TOLERANCE_MS)) latest3 = Math.max(latest3 ?? time2, time2);
  }
  return latest3;
}
function stateSince({ times }, now) {
  return notAfter(times.stateSince, now);
}
function notAfter(time2, now) {
  return time2 !== void 0 && now.reached(time2 - CLOCK_TOLERANCE_MS) ? time2 : void 0;
}
function deadlineOf(shadow2, policy, now) {
  const limit = limitMs(shadow2.spec, policy);
  const state2 = shadow2.state;
  const suspendedUntil = state2 === "Away" || state2 === "Proving" ? policy.deadlinesFrom ?? 0 : 0;
  const since = Math.max(stateSince(shadow2, now) ?? now.ms, suspendedUntil);
  const drainStart = drainingSince(shadow2, now) ?? since;
  return (drainStart > since && drainStart < since + limit ? drainStart : since) + limit;
}
function drainingSince({ metadata: metadata13, spec, status, times }, now) {
  const { observedGeneration } = status?.drain ?? {};
  if (spec.state !== "RebootedIntoUpdate" || observedGeneration !== metadata13.generation) return void 0;
  return notAfter(times.drainSince, now);
}
function limitMs({ state: state2, timeoutSeconds: timeoutSeconds2 }, policy) {
  const { monitoring, drainMs, timeouts } = policy;
  const toldMs = timeoutSeconds2 == null ? void 0 : timeoutSeconds2 * 1e3;
  switch (state2) {
    case "StagedAndPerformedUpdate":
      return stageDeadlineMs(toldMs ?? timeouts.stageMs) + msBefore(policy);
    case "RebootedIntoUpdate":
      return rebootDeadlineMs(drainMs, toldMs ?? timeouts.rebootMs);
    case "MonitoringUpdate":
      return monitoring.timeoutMs + monitoring.healthyForMs + msAfter(policy);
    default:
      return IDLE_DEADLINE_MS;
  }
}
function timeoutSeconds(state2, { timeouts }) {
  if (state2 === "StagedAndPerformedUpdate") return timeouts.stageMs / 1e3;
  return state2 === "RebootedIntoUpdate" ? timeouts.rebootMs / 1e3 : null;
}
function isOverdue(shadow2, policy, now) {
  return isUnderWay(shadow2) && now.reached(deadlineOf(shadow2, policy, now));
}
function isMisdated(shadow2, now) {
  return shadow2.spec.state_transition_timestamp != null && stateSince(shadow2, now) === void 0;
}
function idleSince(shadow2, now) {
  if (isMisdated(shadow2, now)) return now.ms;
  return stateSince(shadow2, now) ?? shadow2.times.createdAt ?? 0;
}
function notRespondingAt(shadow2, now) {
  return idleSince(shadow2, now) + IDLE_DEADLINE_MS;
}
var TIMES = [CORDONED_ANNOTATION, RECORDONED_ANNOTATION, EXCLUDED_ANNOTATION];
function ownedSince({ metadata: { annotations = {} } }, now) {
  return latestTime(
    TIMES.map((name) => parseTime(annotations[name])),
    now
  );
}
function orphanedAnnotations(node) {
  if (!ownedByUs(node)) return [];
  const { labels = {}, annotations = {} } = node.metadata;
  const there = {
    [CORDONED_ANNOTATION]: node.unschedulable,
    [RECORDONED_ANNOTATION]: node.unschedulable,
    [EXCLUDED_ANNOTATION]: labels[EXCLUSION_LABEL] !== void 0,
    [AUTOSCALER_HOLDS_ANNOTATION]: ownedHolds(node).length > 0
  };
  return OWNERSHIP_ANNOTATIONS.filter((name) => annotations[name] !== void 0 && there[name] !== true);
}
function rebootUntil({ node, shadow: shadow2, missingSince }, now) {
  if (node === void 0) return void 0;
  const since = shadow2 === void 0 ? missingSince : idleSince(shadow2, now);
  return mayReboot(node, shadow2?.status) ? since + STEP_LIMITS_MS.Reboot : void 0;
}
function mayReboot(node, status) {
  if (status === void 0) return ownedByUs(node);
  const { lastOperation: last } = status;
  if (last?.operation !== "Reboot" || last.state !== "Processing") return false;
  return node.bootID === "" || node.bootID === last.bootID;
}
function isAccepted(time2, { resumes }, now) {
  const isPast = (ms) => now.reached(ms - CLOCK_TOLERANCE_MS);
  return resumes.some((resumeMs) => isPast(resumeMs) && (time2 <= resumeMs || !isPast(time2)));
}

// packages/controller/src/plan/facts/settings.ts
var PROVING_MS = 6e4;
var CHANGE_LIMIT_MS = HOST_SETTINGS_LIMIT_MS + PROVING_MS;
var AT_REST = /* @__PURE__ */ new Set(["Live", "RestartsService"]);
function wasRebooted({ shadow: shadow2, policy, now }, hash2) {
  return recordedAt(shadow2.record.settingsRebooted, hash2, policy, now) !== void 0;
}
function settingsFacts(input) {
  const { shadow: shadow2, policy, now } = input;
  const hash2 = hashOfSettings(policy.settings);
  const isWanted2 = ownSettings(policy.settings).length > 0;
  const failed2 = isWanted2 ? failedAt(shadow2, hash2, policy, now) : void 0;
  const isRebooted = wasRebooted(
    input,
    failed2 === void 0 ? hash2 : hashOfSettings(restored(policy, shadow2).settings)
  );
  const found = { hash: hash2, isRebooted, ...reportedOf(shadow2) };
  if (failed2 !== void 0) return { ...found, ...afterFailure(input, hash2, failed2) };
  if (!isWanted2 && !isAnyLeft(shadow2)) return { ...found, state: "none" };
  if (!sameSettings(requestedOf(shadow2), policy.settings)) return { ...found, state: "requested" };
  const isChange = isGranted(shadow2) && !needsMore(shadow2);
  return isChange ? { ...found, ...changeOf(input, isWanted2) } : { ...found, state: restingState(shadow2) };
}
function afterFailure(input, hash2, at2) {
  return {
    state: "failed",
    ...wasRebooted(input, hash2) && { rebootFailedAt: at2 },
    ...isGranted(input.shadow) && { changesAt: provesAt(input) }
  };
}
function needsMore({ spec, status }) {
  const { pending: pending2 = [] } = status?.settings ?? {};
  return pending2.some((one) => AT_REST.has(one.class) && !covers(spec.settings?.allow, one.class));
}
function reportedOf({ status }) {
  const { pending: pending2 = [], conflicts = [], cannotUnset = [], message } = status?.settings ?? {};
  return { pending: pending2, conflicts, cannotUnset, message };
}
function restingState(shadow2) {
  const { pending: pending2 = [] } = shadow2.status?.settings ?? {};
  return isOpen(shadow2) || pending2.some((one) => one.class !== "NeedsReboot") ? "classified" : "inForce";
}
function isGranted({ spec }) {
  return (spec.settings?.allow ?? "None") !== "None";
}
function isAnyLeft(shadow2) {
  const { pending: pending2 = [], records = [] } = shadow2.status?.settings ?? {};
  const recorded2 = records.some(({ key: key2 }) => !UPDATER_SETTINGS.includes(key2));
  return recorded2 || pending2.length > 0 || ownSettings(requestedOf(shadow2)).length > 0 || isGranted(shadow2);
}
function isOpen(shadow2) {
  const { inFlight, message } = shadow2.status?.settings ?? {};
  if (inFlight !== void 0) return true;
  if (message !== void 0) return !isAllSet(shadow2);
  return !answers(shadow2) && !isApplied(shadow2);
}
function isAllSet(shadow2) {
  const { pending: pending2 = [], conflicts = [] } = shadow2.status?.settings ?? {};
  const waiting3 = pending2.filter((one) => !AT_REST.has(one.class)).map(({ key: key2 }) => key2);
  return answers(shadow2) && isApplied(shadow2, [...waiting3, ...conflicts]);
}
function isApplied(shadow2, others = []) {
  const set = requestedOf(shadow2).filter(({ key: key2 }) => !others.includes(key2));
  return shadow2.status?.settings?.lastApplied?.hash === hashOf(set.map(({ key: key2, value: value2 }) => [key2, value2]));
}
function changeOf(input, isWanted2) {
  const { shadow: shadow2, now } = input;
  const grantedAt = idleSince(shadow2, now);
  const [provedAt, failsAt] = [provesAt(input), grantedAt + CHANGE_LIMIT_MS];
  const failure = isWanted2 ? failureOf2(input, grantedAt) : void 0;
  if (failure !== void 0) return { state: "changing", failure };
  if (isProved(input)) return { state: "inForce" };
  const state2 = isOpen(shadow2) ? "changing" : "proving";
  if (now.reached(failsAt)) return { state: state2, isLate: true };
  return { state: state2, changesAt: state2 === "proving" && !now.reached(provedAt) ? provedAt : failsAt };
}
function isProved(input) {
  const { node, shadow: shadow2, now } = input;
  const isDone = isGranted(shadow2) && !isOpen(shadow2) && !needsMore(shadow2);
  return isDone && node.ready && now.reached(provesAt(input));
}
function provesAt({ node, shadow: shadow2, settingsSince = 0, now }) {
  return Math.max(idleSince(shadow2, now), settingsSince, node.readySince ?? 0) + PROVING_MS;
}
var CHANGE_LIMIT = `${CHANGE_LIMIT_MS / 6e4} min`;
function failureOf2({ node, shadow: shadow2, now }, grantedAt) {
  const message = rejectionOf(shadow2);
  if (message !== void 0) return message;
  if (hasRebooted(shadow2)) return "the host has rebooted since they were set";
  if (!now.reached(grantedAt + CHANGE_LIMIT_MS)) return void 0;
  if (downSince(node) <= grantedAt + PROVING_MS) return `the Node is not Ready ${CHANGE_LIMIT} after they were set`;
  return isOpen(shadow2) ? `the agent has not confirmed them within ${CHANGE_LIMIT}` : void 0;
}
function rejectionOf(shadow2) {
  return answers(shadow2) && !isAllSet(shadow2) ? shadow2.status?.settings?.message : void 0;
}
function hasRebooted({ record: record9, status }) {
  const bootID2 = record9.settingsBoot;
  return bootID2 !== void 0 && status?.bootID !== void 0 && status.bootID !== bootID2;
}
function downSince({ ready: ready3, readySince }) {
  return ready3 ? Infinity : readySince ?? 0;
}
function isChanging(facts) {
  return (facts?.state === "changing" || facts?.state === "proving") && facts.isLate !== true;
}
function isComplete(facts) {
  if (facts === void 0 || facts.state === "none") return true;
  return facts.state === "inForce" && facts.pending.length + facts.conflicts.length === 0;
}
function grantable({ state: state2, pending: pending2 }) {
  const classes = new Set(pending2.map((one) => one.class));
  if (state2 !== "classified" || classes.has("Refused")) return void 0;
  if (classes.has("RestartsService")) return "RestartsService";
  return classes.has("Live") ? "Live" : void 0;
}
function needsReboot(facts) {
  if (facts === void 0) return false;
  const isDone = facts.state === "inForce" || facts.state === "failed";
  return isDone && allowedAtReboot(facts) === "NeedsReboot" && !facts.isRebooted;
}
function awaitsRestore(facts) {
  return needsReboot(facts) && facts.rebootFailedAt !== void 0;
}
function restoresSettings(shadow2, facts) {
  return shadow2.purpose === "Settings" && facts?.rebootFailedAt !== void 0;
}
function allowedAtReboot({ pending: pending2 }) {
  const isPending = pending2.some((one) => one.class === "NeedsReboot") && !pending2.some((one) => one.class === "Refused");
  return isPending ? "NeedsReboot" : "None";
}
function covers(allowed, needed) {
  if (allowed === void 0 || allowed === "None") return false;
  return SETTING_CLASSES.indexOf(allowed) >= SETTING_CLASSES.indexOf(needed);
}
function ownSettings(settings2) {
  return settings2.filter(({ key: key2 }) => !UPDATER_SETTINGS.includes(key2));
}
function updaterSettings(settings2) {
  return settings2.filter(({ key: key2 }) => UPDATER_SETTINGS.includes(key2));
}
var HASH_OF_NONE = hashOf([]);
function hashOfSettings(settings2) {
  const own2 = ownSettings(settings2);
  return own2.length === 0 ? HASH_OF_NONE : hashOf(own2.map(({ key: key2, value: value2 }) => [key2, value2]));
}
function sameSettings(a, b) {
  const texts2 = new Set(b.map(textOf));
  return a.length === b.length && a.every((one) => texts2.has(textOf(one)));
}
function textOf({ key: key2, value: value2, owner, force = false }) {
  return JSON.stringify([key2, value2, owner, force]);
}
function requestedOf({ spec }) {
  return spec.settings?.leaves ?? [];
}
function specOf(settings2, allow) {
  return settings2.length === 0 && allow === "None" ? null : { leaves: settings2, allow };
}
function lockOf(shadow2) {
  const value2 = requestedOf(shadow2).find(({ key: key2 }) => key2 === VERSION_LOCK)?.value;
  return value2 === void 0 ? void 0 : String(JSON.parse(value2));
}
function failedAt({ record: record9 }, hash2, policy, now) {
  return recordedAt(record9.settingsFailed, hash2, policy, now);
}
function recordedAt(record9, hash2, policy, now) {
  if (record9?.hash !== hash2) return void 0;
  const at2 = parseTime(record9.at);
  return at2 === void 0 || isAccepted(at2, policy, now) ? void 0 : at2;
}
function withoutFailed(policy, shadow2, now) {
  const { settings: settings2 } = policy;
  if (ownSettings(settings2).length === 0) return policy;
  const isFailed = failedAt(shadow2, hashOfSettings(settings2), policy, now) !== void 0;
  return isFailed ? restored(policy, shadow2) : policy;
}
function restored(policy, shadow2) {
  return { ...policy, settings: [...updaterSettings(policy.settings), ...provedSettings(policy.settings, shadow2)] };
}
function provedSettings(failed2, { record: record9 }) {
  const owner = ownSettings(failed2)[0]?.owner ?? "";
  const found = (record9.settingsProved ?? []).map(([key2, value2]) => ({ key: key2, value: value2, owner }));
  return hashOfSettings(found) === hashOfSettings(failed2) ? [] : found;
}
var MAX_PROVED_CHARS = 16384;
function provedNow(shadow2) {
  const waiting3 = waitingIn(shadow2);
  const before = shadow2.record.settingsProved ?? [];
  const proved = ownSettings(requestedOf(shadow2)).map(({ key: key2, value: value2 }) => [key2, value2]);
  return bounded([...proved.filter(([key2]) => !waiting3.has(key2)), ...before.filter(([key2]) => waiting3.has(key2))]);
}
function provedAtGrant(shadow2, settings2) {
  const waiting3 = waitingIn(shadow2);
  const before = shadow2.record.settingsProved ?? [];
  const isLost = ([key2, value2]) => waiting3.has(key2) && settings2.some((one) => one.key === key2 && one.value === value2);
  return bounded(before.filter((one) => !isLost(one)));
}
function provedAtChange(shadow2) {
  const { records = [] } = shadow2.status?.settings ?? {};
  const known = new Set([...requestedOf(shadow2), ...records].map(({ key: key2 }) => key2));
  return bounded((shadow2.record.settingsProved ?? []).filter(([key2]) => known.has(key2)));
}
function waitingIn({ status }) {
  const { pending: pending2 = [], conflicts = [] } = status?.settings ?? {};
  return /* @__PURE__ */ new Set([...pending2.map(({ key: key2 }) => key2), ...conflicts]);
}
function bounded(leaves2) {
  return leaves2.length === 0 || JSON.stringify(leaves2).length > MAX_PROVED_CHARS ? void 0 : leaves2;
}

// packages/controller/src/plan/facts/attempts.ts
function unsuccessful(shadow2) {
  return shadow2.record.unsuccessful ?? 0;
}
function withdrawn(shadow2) {
  return shadow2.record.withdrawn ?? 0;
}
function failures(shadow2) {
  const { crash_count = 0 } = shadow2.status ?? {};
  return Math.max(unsuccessful(shadow2), crash_count - (isOutdated(shadow2) ? 1 : 0));
}
function isOutdated({ status }) {
  const { lastOperation: last, target_version: offered = "" } = status ?? {};
  if (last?.state !== "Failed" || last.errorCode !== "VersionNotOffered") return false;
  return isVersion(offered) && !sameVersion(offered, last.version);
}
function attempts({ record: record9 }, version3) {
  return sameVersion(record9.attempts?.version, version3) ? record9.attempts?.count ?? 0 : 0;
}
var MIN_MEASURED = 5;
var IGNORED_SLOWEST = 2;
function estimateOf(managedNodes, maintenance) {
  const measured = managedNodes.flatMap(({ shadow: shadow2 }) => shadow2 === void 0 ? [] : lastUpdateMs(shadow2) ?? []).toSorted((a, b) => a - b);
  const percentile = measured[Math.min(Math.floor((measured.length - 1) * 0.9), measured.length - 1 - IGNORED_SLOWEST)];
  const measuredMs = measured.length >= MIN_MEASURED ? percentile : void 0;
  return estimateFor({ measuredMs }, maintenance);
}
function estimateFor({ measuredMs }, { updateEstimateMs, marginMs }) {
  return { measuredMs, usualMs: measuredMs ?? updateEstimateMs, marginMs };
}
function expectedMs(shadow2, { usualMs }) {
  const deferredMs = durationMs(shadow2.record.deferredAfterSeconds) ?? 0;
  return Math.max(usualMs, deferredMs, lastUpdateMs(shadow2) ?? 0);
}
function lastUpdateMs(shadow2) {
  return durationMs(shadow2.record.updateSeconds);
}
var LONGEST_MS = 24 * 60 * 6e4;
function durationMs(seconds) {
  return seconds === void 0 ? void 0 : Math.min(seconds * 1e3, LONGEST_MS);
}
var START_LIMIT_MS = 30 * 6e4;
function pendingRollback(shadow2, policy, now) {
  const rollback = shadow2.rollback;
  if (rollback === void 0 || rollback.isDone || !isRollbackWanted(shadow2, policy, now)) return void 0;
  return sameVersion(shadow2.status?.current_version, rollback.failed) ? rollback : void 0;
}
function isRollbackWanted(shadow2, policy, now) {
  const { failed: failed2, previous, since = now.ms } = shadow2.rollback ?? {};
  const { pin } = policy.versions;
  const isPinned = pin !== void 0 && !sameVersion(pin, failed2) && !sameVersion(pin, previous);
  return policy.rollout.rollback === "Automatic" && !isPinned && !isAccepted(since, policy, now);
}
function isPrevious(shadow2, version3) {
  return sameVersion(shadow2.rollback?.previous, version3);
}
function currentRollback(shadow2, policy, now) {
  return shadow2.purpose === "Rollback" ? shadow2.rollback : pendingRollback(shadow2, policy, now);
}
function startDeadline({ since }) {
  return since + START_LIMIT_MS;
}
function previousVersion(shadow2, { rollout: rollout2 }) {
  const { from: previous = "" } = shadow2.record;
  const { spec, status } = shadow2;
  const runsFailed = hasReached(shadow2) && sameVersion(status?.current_version, spec.version);
  if (rollout2.rollback !== "Automatic" || !runsFailed || shadow2.purpose === "Rollback") return void 0;
  return isVersion(previous) && !sameVersion(previous, spec.version) ? previous : void 0;
}
function rollbackPolicy(policy, previous) {
  const versions = { ...policy.versions, pin: previous, deny: [] };
  const health = { ...policy.health, checks: [] };
  const updater = settingsOfVersions({ pin: previous, ignoreWaves: true });
  return { ...policy, versions, health, settings: [...updater, ...ownSettings(policy.settings)] };
}

// packages/shared/src/drain/preflight.ts
function policyBlock(pod, { emptyDirPods, unmanagedPods }) {
  if (pod.finished || isTerminating(pod)) return void 0;
  if (emptyDirPods === "Block" && pod.emptyDir) return block(pod, "has an emptyDir volume", "emptyDirPods");
  if (unmanagedPods === "Block" && pod.unmanaged)
    return block(pod, "has no controller that recreates it", "unmanagedPods");
  return void 0;
}
function block(pod, why, setting2) {
  const message = `${why}, and BrupopConfig "cluster" says Block in spec.drain.${setting2}`;
  return { pod: podKey(pod), reason: "BlockedByPolicy", message };
}
function preflight(pods, budgets, settings2, facts) {
  const rules = { ...settings2, ...facts };
  return podsToEvict(pods, { orphaned: /* @__PURE__ */ new Set() }).flatMap((pod) => {
    const lasting = policyBlock(pod, settings2) ?? terminationBlock(pod, rules) ?? graceBlock(pod, rules);
    if (lasting !== void 0) return [{ ...lasting, mayOpen: false }];
    return budgetBlock(pod, budgets, rules) ?? [];
  });
}
function forces({ onTimeout, mayForce }) {
  return onTimeout === "Force" && mayForce;
}
function longestEndMs(rules) {
  return rules.timeoutMs + (forces(rules) ? FORCE_LIMIT_MS : 0);
}
function terminationBlock(pod, rules) {
  const { deletionTimestamp = "" } = pod.metadata;
  const goneBy = parseTime(deletionTimestamp);
  if (goneBy === void 0) return void 0;
  if (goneBy > rules.now + longestEndMs(rules)) {
    const message2 = `is terminating until ${deletionTimestamp}, longer than a drain may take (spec.drain.timeout ${formatDuration(rules.timeoutMs)})`;
    return { pod: podKey(pod), reason: "Terminating", message: message2 };
  }
  if (forces(rules) || goneBy + rules.podGracePeriodMs > rules.now) return void 0;
  const message = `was to end at ${deletionTimestamp}: ${heldBy(pod)}`;
  return { pod: podKey(pod), reason: "TerminationStuck", message };
}
function heldBy({ finalizers }) {
  return finalizers.length === 0 ? "the kubelet has not terminated it" : `finalizers hold it: ${finalizers.join(", ")}`;
}
function graceBlock(pod, rules) {
  if (pod.finished || isTerminating(pod)) return void 0;
  const { maxGracePeriodMs = Infinity, timeoutMs } = rules;
  const graceMs = pod.graceSeconds * 1e3;
  if (Math.min(graceMs, maxGracePeriodMs) <= longestEndMs(rules)) return void 0;
  const limited = graceMs > maxGracePeriodMs ? `, limited to spec.drain.maxGracePeriod ${formatDuration(maxGracePeriodMs)}` : "";
  const message = `has a grace period of ${formatDuration(graceMs)}${limited}, longer than a drain may take (spec.drain.timeout ${formatDuration(timeoutMs)}): raise spec.drain.timeout, or set spec.drain.maxGracePeriod to less`;
  return { pod: podKey(pod), reason: "BlockedByPolicy", message };
}
function budgetBlock(pod, budgets, rules) {
  if (forces(rules)) return void 0;
  const exhausted = exhaustedBudgets(pod, budgetsOf(pod, budgets), rules.now - rules.podGracePeriodMs);
  const [budget] = exhausted;
  if (budget === void 0) return void 0;
  const podDisruptionBudgets = exhausted.slice(0, MAX_NAMED3).map(({ metadata: metadata13 }) => metadata13.name);
  const found = { pod: podKey(pod), podDisruptionBudgets };
  const unforced = rules.onTimeout === "Force" ? `; ${MAY_NOT_FORCE}` : "";
  if (exhausted.length > 1) {
    const message2 = `is covered by more than one disruption budget (${podDisruptionBudgets.join(", ")}), which the eviction API refuses${unforced}`;
    return { ...found, reason: "MultipleDisruptionBudgets", message: message2, mayOpen: false };
  }
  if (budget.isLarge) {
    const message2 = `its disruption budget ${budget.metadata.name} cannot be read: its selector is too large, or its namespace has too many. It counts as if it selected every pod of its namespace: make it smaller, or delete it${unforced}`;
    return { ...found, reason: "DisruptionBudget", message: message2, mayOpen: false };
  }
  const message = `its disruption budget ${budget.metadata.name} allows no disruption${whyClosed(pod, budget)}${unforced}`;
  const mayOpen2 = rules.blockedBudgets === "TryLast" && rules.onTimeout !== "Force" && mayBeOpened(budget);
  return { ...found, reason: "DisruptionBudget", message, mayOpen: mayOpen2 };
}
var MAX_NAMED3 = 10;
var MAY_NOT_FORCE = "spec.drain.onTimeout is Force, but the API server may not delete pods: set drain.allowForce=true in the values of the chart, or spec.drain.onTimeout to Abort";
function whyClosed(pod, budget) {
  const { failure, expectedPods, currentHealthy, desiredHealthy, closedSince: closedSince2 } = budget;
  if (failure !== void 0) return `, since its pods cannot be counted: ${failure.slice(0, 200)}`;
  if (expectedPods === 0) return ", and its controller has counted no pods for it";
  if (!hasUnhealthyPods(budget)) return ` although all ${expectedPods} of its pods are healthy`;
  const since = closedSince2 === void 0 ? "" : ` since ${rfc3339(closedSince2)}`;
  const itself = pod.ready ? "" : "; this pod is not Ready";
  return `${since}: ${currentHealthy} of its ${expectedPods} pods are healthy, and it requires ${desiredHealthy}${itself}`;
}

// packages/controller/src/plan/facts/workloads.ts
var COUNTS_MS2 = 15e3;
var MAX_PAUSE_MS = 6e5;
var Workloads = class {
  #known;
  #now;
  #draining;
  #isRequested = false;
  #isKept = false;
  /** @param draining - names of the nodes that are being drained */
  constructor(known, draining, now) {
    this.#known = known;
    this.#draining = new Set(draining);
    this.#now = now;
  }
  /** Counts a node whose drain starts. */
  drains({ metadata: { name } }) {
    this.#draining.add(name);
  }
  /** Why the latest list failed. */
  get problem() {
    return this.#known.problem;
  }
  /** All pods; undefined before the first list. Asks for the next one. */
  get pods() {
    this.#isRequested = true;
    return this.#known.seenAt === void 0 ? void 0 : this.#known.pods;
  }
  /** All pods as of `time` or later, epoch milliseconds; undefined: there is no such list. Asks for one then. */
  podsSince(time2) {
    const { pods, asOf, seenAt } = this.#known;
    const isKnown2 = seenAt !== void 0 && asOf >= time2 && asOf <= this.#now;
    if (isKnown2) this.#isKept = true;
    else this.#isRequested = true;
    return isKnown2 ? pods : void 0;
  }
  /** True when the list is recent enough to let a node start. The clock may have been set back. */
  get counts() {
    const { seenAt } = this.#known;
    return seenAt !== void 0 && this.#now - seenAt <= COUNTS_MS2 && seenAt <= this.#now;
  }
  /** When the list began that `pods` has, epoch milliseconds. */
  get asOf() {
    return this.#known.asOf;
  }
  get isRequested() {
    return this.#isRequested;
  }
  /** The list that is known is still needed. */
  get isKept() {
    return this.#isKept;
  }
  /** True when the pods must be listed now. */
  get isDue() {
    const { nextAt } = this.#known;
    return this.#isRequested && (this.#now >= nextAt || nextAt - this.#now > MAX_PAUSE_MS);
  }
  /** When they must be listed again, epoch milliseconds. */
  get times() {
    return this.#isRequested ? [this.#known.nextAt] : [];
  }
  /** Those with a pod on the node that are below what they want; undefined: the pods were not listed yet. */
  belowDesired({ metadata: { name } }) {
    const pods = this.pods;
    if (pods === void 0) return void 0;
    const { byNode: byNode2, unready, leaving } = indexOf(pods);
    const others = [...this.#draining].filter((node) => node !== name);
    const isLeft = (controller) => others.some((node) => leaving.get(node)?.has(controller) === true);
    return [...byNode2.get(name) ?? []].filter((one) => unready.has(one) || isLeft(one)).toSorted();
  }
  /** Of these, those with a pod that is scheduled and not Ready; undefined: the pods were not listed yet. */
  notReadyOf(controllers) {
    const pods = this.pods;
    if (pods === void 0) return void 0;
    const { unready } = indexOf(pods);
    return controllers.filter((controller) => unready.get(controller) === "scheduled");
  }
};
var indexes = /* @__PURE__ */ new WeakMap();
function indexOf(pods) {
  const known = indexes.get(pods);
  if (known !== void 0) return known;
  const [byNode2, leaving] = [/* @__PURE__ */ new Map(), /* @__PURE__ */ new Map()];
  const unready = /* @__PURE__ */ new Map();
  for (const pod of pods) {
    if (!isWorkload(pod.controller)) continue;
    if (leaves(pod)) add(leaving, pod);
    if (isEvicted(pod)) add(byNode2, pod);
    if (!isMissed(pod)) continue;
    unready.set(
      pod.controller,
      pod.node === "" && unready.get(pod.controller) !== "scheduled" ? "waiting" : "scheduled"
    );
  }
  const index = { byNode: byNode2, leaving, unready };
  indexes.set(pods, index);
  return index;
}
function add(to, { node, controller }) {
  const of = to.get(node) ?? /* @__PURE__ */ new Set();
  of.add(controller);
  to.set(node, of);
}
function isMissed({ ready: ready3, healthIgnored, isTerminating: isTerminating2, controller }) {
  if (healthIgnored) return false;
  return isTerminating2 ? controller.startsWith("StatefulSet ") : !ready3;
}
function isWorkload(controller) {
  return controller !== "" && !/^(?:DaemonSet|Job|Node) /u.test(controller);
}
function isEvicted(pod) {
  return leaves(pod) && !pod.isTerminating;
}
function leaves({ mirror, daemonSet, drainPolicy }) {
  return !mirror && daemonSet === void 0 && drainPolicy !== "skip";
}

// packages/controller/src/plan/facts/drainability.ts
var MAX_LOOK_UPS = 30;
var MAX_FAILING_LISTS = 10;
var FRESH_MS = 1e4;
var RECHECK_MS = 6e4;
var RECHECK_EACH_MS = 100;
var Drains = class {
  /** The names of these nodes; the pods of other nodes are not needed. */
  requested = /* @__PURE__ */ new Set();
  #view;
  #now;
  constructor(view, now) {
    this.#view = view;
    this.#now = now;
  }
  of(node, policy) {
    this.requested.add(node.metadata.name);
    return this.known(node, policy);
  }
  /** The same for a node whose pods are not needed therefore. */
  known({ metadata: metadata13 }, { drain, health }) {
    const { pods, budgets, mayForce, ownNamespace } = this.#view;
    const known = pods.get(metadata13.name);
    if (known === void 0 || known.nodeUID !== metadata13.uid) return UNKNOWN;
    const { seenAt, problem } = known;
    if (seenAt === void 0 || seenAt > this.#now) return { ...UNKNOWN, problem };
    return {
      ...check7(known, budgets, { drain, podGracePeriodMs: health.podGracePeriodMs, mayForce, now: seenAt }),
      fresh: this.#now - seenAt <= FRESH_MS,
      recheckAt: seenAt + RECHECK_MS + RECHECK_EACH_MS * pods.size,
      problem,
      seenAt,
      podHealth: () => knownHealth(known.pods, health, ownNamespace),
      pods: known.pods
    };
  }
};
var NO_PODS = {
  unready: [],
  readySince: 0,
  failing: [],
  restarts: /* @__PURE__ */ new Map(),
  notReadySince: /* @__PURE__ */ new Map(),
  evicted: [],
  ready: /* @__PURE__ */ new Map()
};
var UNKNOWN = {
  block: void 0,
  mayOpen: false,
  fresh: false,
  recheckAt: 0,
  problem: void 0,
  seenAt: void 0,
  podHealth: () => NO_PODS,
  pods: []
};
var healths = /* @__PURE__ */ new WeakMap();
function knownHealth(pods, health, ownNamespace) {
  const known = healths.get(pods);
  if (known?.health === health) return known.found;
  const found = healthOf(pods, { ...health, ownNamespace });
  healths.set(pods, { health, found });
  return found;
}
function healthOf(pods, { ignoredNamespaces, trustedNamespaces, ownNamespace }) {
  const healthCounts = ({ healthIgnored, metadata: { namespace = "" } }) => !healthIgnored && !ignoredNamespaces.includes(namespace);
  const staying = pods.filter((pod) => !isTerminating(pod));
  const counted = staying.filter(healthCounts);
  const daemons = counted.filter(({ daemonSet }) => {
    const [namespace = ""] = daemonSet?.split("/") ?? [];
    return daemonSet !== void 0 && (namespace === ownNamespace || trustedNamespaces.includes(namespace));
  });
  const unready = daemons.filter(({ ready: ready3 }) => !ready3).map(({ daemonSet = "" }) => daemonSet);
  const others = counted.filter((pod) => pod.daemonSet === void 0 && pod.controller !== "" && !pod.mirror);
  const failing = others.filter((pod) => pod.failing);
  const evicted = podsToEvict(
    staying.filter(({ healthIgnored }) => !healthIgnored),
    { orphaned: /* @__PURE__ */ new Set() }
  ).filter(({ finished }) => !finished);
  const times = daemons.flatMap(({ ready: ready3, readyChanged }) => ready3 ? readyChanged ?? [] : []);
  return {
    unready: inOrder(unready),
    readySince: Math.max(0, ...times),
    failing: inOrder(failing.map(({ controller }) => controller)),
    restarts: latest(others.map(({ controller, restartedAt }) => [controller, restartedAt])),
    notReadySince: earliest(unreadyOf(counted).map(({ controller, readyChanged }) => [controller, readyChanged])),
    evicted: inOrder(evicted.map(({ controller }) => controller).filter(isWorkload)),
    ready: readyIn(counted)
  };
}
function readyIn(pods) {
  const compared = pods.filter((pod) => isCompared(pod) && !pod.finished);
  const ready3 = latest(compared.map((pod) => [comparedAs(pod), secondsToReady(pod)]));
  for (const pod of compared) if (!pod.ready) ready3.delete(comparedAs(pod));
  return ready3;
}
function isCompared({ controller, mirror }) {
  return !mirror && (isWorkload(controller) || controller.startsWith("DaemonSet "));
}
function comparedAs({
  controller,
  metadata: { labels = {} }
}) {
  const revision = labels[REVISION_LABEL];
  return revision === void 0 ? controller : `${controller} ${revision}`;
}
var MAX_SECONDS = 300;
function secondsToReady({ readyChanged = 0, metadata: { creationTimestamp } }) {
  const ms = readyChanged - (parseTime(creationTimestamp) ?? readyChanged);
  return Math.min(MAX_SECONDS, Math.max(0, Math.ceil(ms / 1e3)));
}
function unreadyOf(pods) {
  return pods.filter(({ ready: ready3, finished, mirror, controller }) => !ready3 && !finished && !mirror && controller !== "");
}
function latest(dated) {
  return byName3(dated, Math.max);
}
function earliest(dated) {
  return byName3(dated, Math.min);
}
function byName3(dated, chosen) {
  const times = /* @__PURE__ */ new Map();
  for (const [name, time2] of dated) {
    if (time2 !== void 0) times.set(name, chosen(time2, times.get(name) ?? time2));
  }
  return times;
}
function inOrder(names) {
  return [...new Set(names)].toSorted();
}
var checks2 = /* @__PURE__ */ new WeakMap();
function check7({ pods, namespaces }, budgets, input) {
  const known = checks2.get(pods);
  const isChecked = known?.settings === input.drain;
  if (isChecked && isUnchanged(known.budgets, budgets)) return known.result;
  const used = new Map([...namespaces].map((name) => [name, budgets.get(name)]));
  const result = isChecked && isUnchangedFor(pods, known.budgets, used) ? known.result : checkAnew(pods, budgets, input);
  checks2.set(pods, { result, settings: input.drain, budgets: used });
  return result;
}
function isUnchanged(used, budgets) {
  for (const [name, index] of used) if (budgets.get(name) !== index) return false;
  return true;
}
function isUnchangedFor(pods, used, current) {
  return pods.every((pod) => {
    const { namespace = "" } = pod.metadata;
    const [earlier, now] = [used.get(namespace), current.get(namespace)];
    return now === void 0 ? earlier === void 0 : now.isSameFor(pod, earlier);
  });
}
function checkAnew(pods, budgets, { drain, ...facts }) {
  const blocks = preflight(pods, budgets, drain, facts);
  if (blocks.length === 0) return { block: void 0, mayOpen: false };
  return { block: describeBlocks(blocks), mayOpen: blocks.every(({ mayOpen: mayOpen2 }) => mayOpen2) };
}
function isDrainBlocked({ block: block2, recheckAt }, now) {
  return block2 !== void 0 && now < recheckAt;
}
function isDrainable({ block: block2, fresh }) {
  return fresh && block2 === void 0;
}
var MAX_NAMED4 = 3;
function describeBlocks(blocks) {
  const named4 = blocks.slice(0, MAX_NAMED4).map(({ pod, message }) => `${pod} ${message}`);
  const more = blocks.length > MAX_NAMED4 ? [`${blocks.length - MAX_NAMED4} more`] : [];
  return [...named4, ...more].join("; ");
}
var WAITS = { baseMs: 60 * 6e4, capMs: 24 * 60 * 6e4 };
function oneMoreBlockedDrain({ record: record9 }, at2) {
  return { count: (record9.blockedDrains?.count ?? 0) + 1, at: at2 };
}
function nextTryAt({ record: record9 }, now) {
  const { count: count2 = 0, at: time2 } = record9.blockedDrains ?? {};
  const at2 = parseTime(time2);
  if (at2 === void 0 || count2 === 0 || at2 > now + CLOCK_TOLERANCE_MS) return 0;
  return at2 + delayAfter(count2, WAITS);
}
function isTrying(shadow2) {
  const { blockedDrains, startedAt } = shadow2.record;
  return isUnderWay(shadow2) && blockedDrains !== void 0 && blockedDrains.at === startedAt;
}
function mayBeDrained(drainable, shadow2) {
  return isDrainable(drainable) || drainable.fresh && drainable.mayOpen && isTrying(shadow2);
}

// packages/controller/src/plan/facts/evaluations.ts
var EVERY_MS = 15e3;
function failedOf(answers2) {
  const failed2 = answers2.find(({ latest: latest3 }) => latest3?.passed === false);
  return failed2?.latest && { probe: failed2.probe, found: failed2.latest.found };
}
function problemIn(answers2) {
  const failed2 = failedOf(answers2);
  return failed2 && `the check ${failed2.probe.check} does not pass: ${failed2.found}`;
}
var Checks = class {
  view;
  #requested = /* @__PURE__ */ new Map();
  #now;
  constructor(view, now) {
    this.view = view;
    this.#now = now;
  }
  /** The latest evaluation, if it counts. Of one that has not passed, also an older one. */
  of(probe) {
    const key2 = keyOf3(probe);
    this.#requested.set(key2, probe);
    const latest3 = this.view.evaluations.get(key2);
    return latest3 === void 0 || latest3.passed && this.#isOld(latest3) ? void 0 : latest3;
  }
  /** The probes, each with {@link of}. */
  all(probes) {
    return probes.map((probe) => ({ probe, latest: this.of(probe) }));
  }
  /** What must be evaluated now. */
  get due() {
    return [...this.#requested].flatMap(([key2, probe]) => {
      const latest3 = this.view.evaluations.get(key2);
      return latest3 === void 0 || this.#isOld(latest3) ? [probe] : [];
    });
  }
  /** When the others must be evaluated again, epoch milliseconds. */
  get times() {
    return [...this.#requested.keys()].flatMap((key2) => {
      const latest3 = this.view.evaluations.get(key2);
      return latest3 === void 0 ? [] : [latest3.at + EVERY_MS];
    });
  }
  /** The clock may have been set back. */
  #isOld({ at: at2 }) {
    return this.#now - at2 >= EVERY_MS || at2 > this.#now;
  }
};
function probesOf({ health }, phase2) {
  return health.checks.filter(({ when: when2 }) => when2.includes(phase2)).flatMap((check8) => probeOf(check8) ?? []);
}
function probesNamed({ health }, names) {
  return health.checks.filter(({ name }) => names.includes(name)).flatMap((check8) => probeOf(check8) ?? []);
}
function probeOf({ name, prometheus: prometheus2, alerts: alerts2 }) {
  if (prometheus2 !== void 0) return { check: name, kind: "prometheus", query: prometheus2.query };
  return alerts2 && { check: name, kind: "alerts", filter: alerts2.filter };
}
function templatesOf({ health, hooks }, quorums2) {
  const before = hooks.before.filter(({ quorum: quorum2 }) => quorum2 === void 0 || quorums2.has(quorum2));
  const named4 = [...health.checks, ...before, ...hooks.after];
  return named4.flatMap(
    ({ name, job: job3 }) => job3 ? [{ check: name, kind: "cronJob", cronJob: job3.cronJob }] : []
  );
}

// packages/controller/src/plan/facts/suspects.ts
var COUNTS_MS3 = 36e5;
var LEAST_MS = 6e4;
var MOST_MS = 6e5;
var MOVES_MS = 18e5;
var TOLERANCE_MS = 2e3;
var ReadyBefore = class {
  #pairs;
  #now;
  #found;
  #byWorkload = /* @__PURE__ */ new Map();
  constructor(pairs, now) {
    this.#pairs = pairs;
    this.#now = now;
  }
  /** How long a pod may be not Ready on `version`, milliseconds; undefined: no node of another version shows it. */
  limitMs(workload, version3) {
    const release3 = releaseOf(version3);
    const seconds = this.#of(workload).flatMap(
      (drain) => drain.release === release3 ? [] : drain.workloads[workload] ?? []
    );
    if (seconds.length === 0) return void 0;
    return Math.min(MOST_MS, Math.max(LEAST_MS, 2e3 * Math.max(...seconds)));
  }
  /** The node whose drain moved a pod that was created at `createdAt`, if it is another one. */
  originOf(workload, createdAt, node) {
    const before = this.#of(workload).filter(({ at: at2 }) => at2 <= createdAt + TOLERANCE_MS && createdAt <= at2 + MOVES_MS);
    const latest3 = before.toSorted((a, b) => b.at - a.at)[0]?.name;
    return latest3 === node ? void 0 : latest3;
  }
  #of(workload) {
    const found = this.#byWorkload.get(workload) ?? this.#drains.filter((one) => one.workloads[workload] !== void 0);
    this.#byWorkload.set(workload, found);
    return found;
  }
  get #drains() {
    this.#found ??= this.#pairs.flatMap((pair) => drainOf(pair, this.#now) ?? []);
    return this.#found;
  }
};
function drainOf({ name, shadow: { record: record9 } }, now) {
  const { readyBefore, from: version3 } = record9;
  if (readyBefore === void 0 || version3 === void 0) return void 0;
  const at2 = parseTime(readyBefore.at) ?? 0;
  return now - at2 > COUNTS_MS3 || at2 > now ? void 0 : { name, at: at2, release: releaseOf(version3), workloads: readyBefore.workloads };
}
function isObserved({ health: { pods, watchForMs } }) {
  return pods !== "Ignored" && watchForMs > 0;
}
function suspectsOf({ name, shadow: shadow2, policy }, now, accepting = policy) {
  const { record: record9, updated: updated2, status } = shadow2;
  if (record9.suspects === void 0 || updated2 === void 0 || !isObserved(policy)) return [];
  if (!sameVersion(updated2.version, status?.current_version)) return [];
  return record9.suspects.flatMap(({ at: time2, ...suspect }) => {
    const at2 = parseTime(time2) ?? now.ms;
    return isAccepted(at2, accepting, now) ? [] : [{ ...suspect, at: at2, node: name, version: updated2.version }];
  });
}
function suspectsAmong(listed, before) {
  const { node, version: version3, listedAt, known } = listed;
  const suspects = /* @__PURE__ */ new Map();
  let nextAt = Infinity;
  for (const pod of listed.pods.filter((one) => counts(one, listed.health))) {
    const workload = comparedAs(pod);
    const limitMs2 = before.limitMs(workload, version3) ?? (known.has(workload) ? LEAST_MS : void 0);
    if (limitMs2 === void 0 || suspects.has(workload)) continue;
    const createdAt = parseTime(pod.metadata.creationTimestamp) ?? listedAt;
    const lateAt = Math.max(createdAt, pod.readyChanged ?? 0) + limitMs2;
    const problem = problemOf3(pod, listed, createdAt, lateAt);
    if (problem !== void 0) suspects.set(workload, { workload, problem, ...movedBy(pod, createdAt, node, before) });
    else if (!pod.ready) nextAt = Math.min(nextAt, lateAt);
  }
  return { suspects: [...suspects.values()].toSorted((a, b) => a.workload < b.workload ? -1 : 1), nextAt };
}
function movedBy(pod, createdAt, node, before) {
  const from = pod.daemonSet === void 0 ? before.originOf(comparedAs(pod), createdAt, node) : void 0;
  return from === void 0 ? {} : { from };
}
function counts(pod, { ignoredNamespaces }) {
  const { namespace = "" } = pod.metadata;
  return isCompared(pod) && !pod.healthIgnored && !isTerminating(pod) && !ignoredNamespaces.includes(namespace);
}
function problemOf3(pod, { listedAt, drainedAt }, createdAt, lateAt) {
  if (pod.failing) return "cannot start";
  const { restarts, restartedAt = 0 } = pod;
  const isNew = createdAt + TOLERANCE_MS >= drainedAt;
  if (isNew && restarts > 1 && listedAt - restartedAt < RESTARTED_MS) return "is restarted again and again";
  return !pod.ready && listedAt >= lateAt ? "does not become Ready" : void 0;
}
function controllerOf2({ workload }) {
  return workload.split(" ", 2).join(" ");
}
function isTrusted(workload, { health }, ownNamespace) {
  if (health.pods === "Required") return true;
  const [namespace = ""] = workload.slice(workload.indexOf(" ") + 1).split("/");
  return namespace === ownNamespace || health.trustedNamespaces.includes(namespace);
}
var MAX_NAMED5 = 3;
function describeSuspects(suspects) {
  const list2 = suspects.slice(0, MAX_NAMED5).map(({ workload, problem, from }) => {
    const moved = from === void 0 ? "" : ` (its pod was moved there by the drain of ${from})`;
    return `${workload} ${problem}${moved}`;
  });
  const more = suspects.length > MAX_NAMED5 ? ` and ${suspects.length - MAX_NAMED5} more` : "";
  return `these workloads fail on the node: ${list2.join(", ")}${more}`;
}

// packages/controller/src/plan/facts/moment.ts
var Moment = class {
  #ms;
  #until = Infinity;
  /** @param ms - epoch milliseconds */
  constructor(ms) {
    this.#ms = ms;
  }
  get ms() {
    this.#until = this.#ms;
    return this.#ms;
  }
  /** Until when all that was asked is answered as now, epoch milliseconds. */
  get until() {
    return this.#until;
  }
  /** The answer depends on other nodes: it holds for this plan only. */
  holdsOnce() {
    this.#until = this.#ms;
  }
  /** @param time - epoch milliseconds */
  reached(time2) {
    if (this.#ms >= time2) return true;
    if (time2 < this.#until) this.#until = time2;
    return false;
  }
};
var Kept = class {
  #found = /* @__PURE__ */ new WeakMap();
  /**
   * @param of - what the value is made of, besides the time
   * @param now - epoch milliseconds
   */
  of(of, now, find) {
    const known = this.#found.get(of);
    if (known !== void 0 && known.from <= now && now < known.until) return known.value;
    const moment = new Moment(now);
    const value2 = find(moment);
    this.#found.set(of, { value: value2, from: now, until: moment.until });
    return value2;
  }
};

// packages/controller/src/plan/facts/failed-nodes.ts
var WITNESSES = 3;
var CODES2 = [
  "RolledBack",
  "WrongVersionBooted",
  "RebootTimedOut",
  "ActivateFailed",
  "RebootRefused"
];
var AFTER_DRAIN = ["Reboot", "Restore"];
var WITHOUT_BOOT = [
  "NotReturned",
  "RebootTimedOut",
  "ActivateFailed",
  "RebootRefused",
  "StepTimedOut"
];
var SUCCESSES = ["Drained", "Forced"];
function isDrained({ spec, status, metadata: { generation = 0 } }) {
  if (spec.state !== "RebootedIntoUpdate" && spec.state !== "MonitoringUpdate") return false;
  const { observedGeneration = -Infinity, result } = status?.drain ?? {};
  return SUCCESSES.includes(result) && generation - observedGeneration <= 2;
}
function hasNotRebooted({ record: { bootBefore: bootBefore2 } }, { bootID: bootID2 }) {
  return bootBefore2 !== void 0 && bootBefore2 === bootID2;
}
function isBootUnconfirmed(shadow2, node) {
  const code = codeOf(shadow2);
  return code !== void 0 && !WITHOUT_BOOT.includes(code) && isDrained(shadow2) && hasNotRebooted(shadow2, node);
}
function witnessed(code, shadow2, node) {
  const hasBooted = WITHOUT_BOOT.includes(code) || !hasNotRebooted(shadow2, node);
  return isDrained(shadow2) && hasBooted ? code : void 0;
}
function codeOf(shadow2) {
  const { errorCode, operation: operation2 } = shadow2.status?.lastOperation ?? {};
  const counts2 = CODES2.includes(errorCode) || errorCode === "StepTimedOut" && AFTER_DRAIN.includes(operation2);
  return counts2 ? errorCode : void 0;
}
function reportedFailure(shadow2, node) {
  return witnessed(codeOf(shadow2), shadow2, node);
}
function missedDeadline(shadow2, node) {
  const state2 = shadow2.state;
  if (state2 === "Proving") return witnessed("NotHealthy", shadow2, node);
  const isActivating = shadow2.status?.lastOperation?.operation === "Activate";
  return state2 === "Away" && !isActivating ? witnessed("NotReturned", shadow2, node) : void 0;
}
function failureAtEnd(shadow2, node, reason2) {
  return reason2 === "CheckFailed" ? witnessed(reason2, shadow2, node) : missedDeadline(shadow2, node);
}
function failedNodes({ managedNodes, policy, config, checks: view, ownNamespace, groups }, { selected: selected2, versions, isHealthUnknown, now }) {
  const known = recorded(config?.status?.failedNodes);
  const input = { view, isHealthUnknown, ownNamespace, fleet: policy, now };
  const current = managedNodes.flatMap((one) => {
    const failure = failureOf3(one, known, input);
    return failure === void 0 ? [] : inLane(failure, known.find((other) => isSame3(other, failure))?.group ?? laneOf(one, groups));
  });
  const present = new Map(known.length === 0 ? [] : managedNodes.map((one) => [one.name, one]));
  const isDeleted = (one) => wasReplaced(one, present.get(one.name)?.node) || !present.has(one.name);
  const kept = known.filter((one) => {
    const isCounted = current.some((other) => isSame3(one, other));
    if (isCounted || hasRecovered(one, present.get(one.name)?.shadow)) return false;
    return !isLeftBehind(one, versions, selected2) && !(isDeleted(one) && runsEverywhere(one, selected2));
  });
  const before = kept.map((one) => {
    const { name, version: version3, code, since, group: group2 } = one;
    return {
      name,
      version: version3,
      code,
      since,
      ...isDeleted(one) && { deleted: true },
      ...group2 !== void 0 && { group: group2 }
    };
  });
  return [...current, ...before].filter(({ since }) => !isAccepted(since, policy, now)).toSorted((a, b) => b.since - a.since || (a.name < b.name ? -1 : 1));
}
function inLane(failure, group2) {
  return group2 === void 0 ? failure : { ...failure, group: group2 };
}
function laneOf({ group: group2, shadow: shadow2 }, groups) {
  const hasEnded2 = shadow2?.record.succeeded !== void 0 || shadow2?.record.startedAt === void 0;
  const name = hasEnded2 ? group2?.name : groupAtStart(shadow2);
  return groups.find((one) => one.name === name)?.lanes.has("budget") === true ? name : void 0;
}
function isSame3(a, b) {
  return a.name === b.name && sameVersion(a.version, b.version);
}
function hasRecovered({ code, since }, shadow2) {
  return shadow2 !== void 0 && (code === "WorkloadsFailed" || (shadow2.updated?.at ?? 0) >= since);
}
function wasReplaced({ since }, node) {
  const createdAt = node?.createdAt;
  return createdAt !== void 0 && createdAt > since + CLOCK_TOLERANCE_MS;
}
function runsEverywhere({ version: version3 }, selected2) {
  const running = selected2.flatMap(({ shadow: shadow2, policy: { versions } }) => {
    const { current_version: current = "" } = shadow2?.status ?? {};
    return current === "" ? [] : [{ current, versions }];
  });
  return running.length > 0 && running.every(({ current, versions }) => isAtOrBeyond(current, version3, versions));
}
function isLeftBehind({ version: version3 }, versions, selected2) {
  if (versions.length === 0 || !versions.every((one) => isLater(one.version, version3))) return false;
  return !selected2.some(({ policy }) => sameVersion(policy.versions.pin, version3));
}
function failureOf3(managedNode, known, input) {
  const { name, shadow: shadow2 } = managedNode;
  if (shadow2 === void 0) return void 0;
  const isCounted = shadow2.purpose === "Update";
  const current = isCounted && isPair(managedNode) ? currentFailure(managedNode, input) : void 0;
  if (current === void 0) return recordedFailure(name, shadow2) ?? failureOfWorkloads(managedNode, input);
  const found = { name, version: shadow2.spec.version ?? "", ...current };
  const since = known.find((one) => isSame3(one, found) && one.code === found.code)?.since ?? found.since;
  return { ...found, since };
}
var LASTING_MS = 9e4;
function failureOfWorkloads(managedNode, { ownNamespace, fleet, now }) {
  if (!isPair(managedNode) || managedNode.shadow.record.suspects === void 0) return void 0;
  const { name, policy } = managedNode;
  const found = suspectsOf(managedNode, now, fleet).find(
    ({ workload, at: at2 }) => isTrusted(workload, policy, ownNamespace) && now.reached(at2 + LASTING_MS)
  );
  return found && { name, version: found.version, code: "WorkloadsFailed", since: found.at };
}
function currentFailure(pair, input) {
  const { shadow: shadow2, node, policy } = pair;
  const { view, now } = input;
  const isReported2 = answers(shadow2) && shadow2.status?.current_state === "ErrorReset";
  const reported2 = isReported2 ? reportedFailure(shadow2, node) : void 0;
  if (reported2 !== void 0) return { code: reported2, since: now.ms };
  const isFailed = hasFailedCheck({ shadow: shadow2, policy, checks: { view }, now });
  const checked = isFailed ? witnessed("CheckFailed", shadow2, node) : void 0;
  if (checked !== void 0) return { code: checked, since: now.ms };
  return isReported2 ? void 0 : lateFailure(pair, input);
}
function lateFailure(pair, { isHealthUnknown, now }) {
  const { shadow: shadow2, node, policy } = pair;
  if (policy.isZoneOff === true || !isOverdue(shadow2, policy, now) || isHealthUnknown(pair)) return void 0;
  const code = missedDeadline(shadow2, node);
  return code && { code, since: deadlineOf(shadow2, policy, now) };
}
function hasFailedCheck(input) {
  const { shadow: shadow2, policy } = input;
  if (shadow2.spec.state !== "MonitoringUpdate" || policy.isSuspended === true) return false;
  return progressOf(jobsAfter(input), input).failed !== void 0;
}
function recordedFailure(name, { record: { failed: failed2 } }) {
  if (failed2 === void 0) return void 0;
  const since = parseTime(failed2.at);
  return since === void 0 ? void 0 : { name, version: failed2.version, code: failed2.code, since };
}
function failedCheckAt({ name, shadow: shadow2, policy, now }) {
  const { version: version3, code, since } = recordedFailure(name, shadow2) ?? {};
  const { current_version: running, target_version: offered = "" } = shadow2.status ?? {};
  if (code !== "CheckFailed" || since === void 0 || !sameVersion(running, version3)) return void 0;
  const isCurrent = sameVersion(wantedVersion(offered, policy.versions), running);
  return isCurrent && !isAccepted(since, policy, now) ? since : void 0;
}
function recorded(entries2 = []) {
  return entries2.flatMap(({ since, ...one }) => {
    const time2 = parseTime(since);
    return time2 === void 0 ? [] : [{ ...one, since: time2 }];
  });
}
function frozenVersions(failed2, { managedNodes, policy, before: reported2, versions, selected: selected2, now }) {
  const moment = new Moment(now);
  const before = recorded(reported2).filter(({ since }) => !isAccepted(since, policy, moment));
  const budget = nodesAtOnce(policy.rollout.failureBudget, selected2.length);
  const releases = new Map([...failed2, ...before].map(({ version: version3 }) => [releaseOf(version3), version3]));
  const frozen2 = [...releases.values()].flatMap((version3) => {
    const known = before.find((one) => sameVersion(one.version, version3));
    if (known !== void 0) return isLeftBehind(known, versions, selected2) ? [] : [known];
    const count2 = failed2.filter((one) => sameVersion(one.version, version3)).length;
    return selected2.length > 0 && count2 > budget ? [{ version: version3, since: now }] : [];
  });
  const enough = Math.min(WITNESSES, managedNodes.length);
  return frozen2.map(({ version: version3, since }) => {
    const failedOnes = new Set(failed2.filter((one) => sameVersion(one.version, version3)).map(({ name }) => name));
    const others = managedNodes.filter((one) => !failedOnes.has(one.name) && hasSeen(one, version3));
    return { version: version3, since, holdsOlder: others.length > 0 && failedOnes.size + others.length >= enough };
  });
}
function hasSeen({ shadow: shadow2 }, version3) {
  const { current_version: running, target_version: offered } = shadow2?.status ?? {};
  return sameVersion(running, version3) || sameVersion(offered, version3);
}

// packages/controller/src/plan/facts/health.ts
var RECHECK_MS2 = 5e3;
var MAX_NAMED6 = 3;
function problemCondition({ conditions: conditions2 }, { health }, before = []) {
  const found = conditions2.find((type) => health.conditions.includes(type) && !before.includes(recordOf2(type)));
  return found && `the Node has the condition ${found}`;
}
function unhealthyPods({ failing, notReadySince }, { health: { podGracePeriodMs } }, now) {
  const overdue2 = [...notReadySince].filter(([, since]) => now.reached(since + podGracePeriodMs)).map(([name]) => name);
  return { failing, unready: overdue2.filter((name) => !failing.includes(name)).toSorted() };
}
var WAIT_MS = 60 * 6e4;
var SHORT_WAIT_MS = 30 * 6e4;
function waitsForPodsUntil({ shadow: shadow2, policy, drain }, ownNamespace, now) {
  const { failing, unready } = unhealthyPods(drain().podHealth(), policy, now);
  const isAnyTrusted = [...failing, ...unready].some((name) => isTrusted(name, policy, ownNamespace));
  return (podsWaitSince(shadow2, now) ?? now.ms) + (isAnyTrusted ? WAIT_MS : SHORT_WAIT_MS);
}
var WAITED_MS = 8 * 24 * 60 * 6e4;
function podsWaitSince({ record: record9 }, now) {
  const since = parseTime(record9.podsWaitSince);
  return since === void 0 || since > now.ms + CLOCK_TOLERANCE_MS || now.ms > since + WAITED_MS ? void 0 : since;
}
function problemBefore(health, policy, now) {
  const { podGracePeriodMs } = policy.health;
  const { failing, unready } = unhealthyPods(health, policy, now);
  const found = [
    ...failing.length > 0 ? [`pods of these controllers on the node cannot start: ${named(failing)}`] : [],
    ...unready.length > 0 ? [
      `pods of these controllers on the node have not been Ready for ${formatDuration(podGracePeriodMs)}: ${named(unready)}`
    ] : []
  ];
  return found.length === 0 ? void 0 : found.join("; ");
}
function typeOf2(condition2) {
  return condition2.split("=", 1)[0] ?? condition2;
}
function recordOf2(condition2) {
  return `condition ${condition2}`;
}
function beforeDrainOf(input) {
  const { policy, drain } = input;
  const { evicted, ready: ready3 } = drain().podHealth();
  return {
    unreadyBefore: unhealthyNow(input),
    evictedWorkloads: policy.health.workloads === "Required" ? evicted : [],
    readyBefore: isObserved(policy) ? ready3 : /* @__PURE__ */ new Map()
  };
}
function unhealthyNow({ node, policy, drain }) {
  const { unready, failing } = drain().podHealth();
  const conditions2 = node.conditions.filter((type) => policy.health.conditions.includes(type)).map(recordOf2);
  return [...conditions2, ...unready, ...failing];
}
function monitoringOf(input) {
  const { shadow: shadow2, node, policy } = input;
  if (shadow2.spec.state !== "MonitoringUpdate") return {};
  const temporary = temporaryProblem(shadow2, node);
  if (temporary !== void 0) return { problem: temporary };
  const lasting = lastingProblem(shadow2, node);
  if (lasting !== void 0) return { problem: lasting, lasting: true };
  const problem = problemCondition(node, policy, unreadyBefore(shadow2));
  if (problem !== void 0) return { problem };
  return policy.isSuspended === true ? {} : checksOf(input);
}
function checksOf(input) {
  const jobs2 = progressOf(jobsAfter(input), input);
  if (jobs2.failed !== void 0) return { problem: jobs2.failed.message, jobs: jobs2 };
  if (jobs2.isStarted && !jobs2.isDone) return { problem: jobs2.waitsFor, jobs: jobs2 };
  const end = endOf(input);
  if (end.healthyAt === void 0) return end;
  const away = workloadsOf(input) ?? membersAway(input);
  if (away !== void 0) return away;
  return jobs2.isDone ? { ...queriesOf(input, end.healthyAt), jobs: jobs2 } : { problem: jobs2.waitsFor, jobs: jobs2 };
}
function areDaemonSetsReady(input) {
  const { shadow: shadow2, node, policy, drain, now } = input;
  if (temporaryProblem(shadow2, node) !== void 0) return false;
  if (policy.health.daemonSets === "Ignored") return true;
  const { seenAt, podHealth } = drain();
  const before = unreadyBefore(shadow2);
  const isCurrent = seenAt !== void 0 && seenAt >= (stateSince(shadow2, now) ?? now.ms);
  return isCurrent && podHealth().unready.every((name) => before.includes(name));
}
function workloadsOf({ shadow: shadow2, policy, workloads, now }) {
  const evicted = policy.health.workloads === "Required" ? shadow2.record.evictedWorkloads ?? [] : [];
  if (evicted.length === 0) return void 0;
  const found = workloads.notReadyOf(evicted);
  const isCurrent = found !== void 0 && workloads.asOf >= (stateSince(shadow2, now) ?? now.ms) + 1e3;
  if (!isCurrent) {
    const { problem } = workloads;
    return { isUnknown: true, problem: problem && `the pods of the cluster cannot be listed: ${problem}` };
  }
  if (found.length === 0) return workloads.counts ? void 0 : { isUnknown: true };
  return { problem: `these workloads, whose pods its drain evicted, are not Ready again: ${named(found)}` };
}
function membersAway({ shadow: shadow2, quorums: quorums2, now }) {
  return quorums2.records.whyNotBack(shadow2, (stateSince(shadow2, now) ?? now.ms) + 1e3);
}
function queriesOf({ shadow: shadow2, policy, checks: checks3, now }, healthyAt) {
  const { healthyForMs } = policy.monitoring;
  const since = stateSince(shadow2, now) ?? now.ms;
  const found = checks3.all(probesOf(policy, "After"));
  const problem = problemIn(found);
  if (problem !== void 0) return { problem };
  const passed = found.flatMap(
    ({ latest: latest3 }) => latest3 === void 0 || latest3.at < since + 1e3 ? [] : [latest3.since]
  );
  if (passed.length < found.length) return {};
  return { healthyAt: Math.max(healthyAt, ...passed.map((time2) => time2 + healthyForMs)) };
}
function endOf(input) {
  const { shadow: shadow2, node, policy, now } = input;
  const { deadlinesFrom = 0, health, monitoring } = policy;
  const start = Math.max(stateSince(shadow2, now) ?? now.ms, deadlinesFrom);
  const cleared = health.conditions.map((condition2) => node.clearedAt[typeOf2(condition2)] ?? 0);
  const since = Math.max(start, node.readySince ?? start, ...cleared);
  const isWithoutPods = health.daemonSets === "Ignored" && health.pods !== "Required";
  return isWithoutPods ? { healthyAt: since + monitoring.healthyForMs } : podsOf(input, start, since);
}
function podsOf({ shadow: shadow2, policy, drain, now }, start, since) {
  const { seenAt, problem, podHealth, recheckAt: laterAt } = drain();
  const from = problem === void 0 ? start : Infinity;
  const isListed = seenAt !== void 0 && (seenAt >= from || isRecent(seenAt, now));
  if (!isListed) return notListed2(problem);
  const health = podHealth();
  const readySince = policy.health.daemonSets === "Required" ? health.readySince : 0;
  const broken = problemOfPods(health, { shadow: shadow2, policy, now });
  const recheckAt = isOverdue(shadow2, policy, now) ? laterAt : seenAt + RECHECK_MS2;
  if (broken !== void 0) return { problem: broken, lookUp: now.reached(recheckAt), recheckAt };
  const healthyAt = Math.max(since, readySince) + policy.monitoring.healthyForMs;
  return now.reached(healthyAt) && !isRecent(seenAt, now) ? { lookUp: true } : { healthyAt };
}
function notListed2(problem) {
  return { lookUp: true, isUnknown: true, problem: problem && `the pods on the node cannot be listed: ${problem}` };
}
function problemOfPods({ unready, failing, restarts }, { shadow: shadow2, policy: { health, monitoring }, now }) {
  const before = unreadyBefore(shadow2);
  const isNew = (name) => !before.includes(name);
  const daemonSets = health.daemonSets === "Required" ? unready.filter(isNew) : [];
  const controllers = health.pods === "Required" ? failing.filter(isNew) : [];
  const isRecentlyRestarted = (at2) => !now.reached(at2 + Math.max(monitoring.healthyForMs, RECHECK_MS2));
  const restarted = health.pods !== "Required" ? [] : [...restarts].filter(([, at2]) => isRecentlyRestarted(at2));
  const crashing = restarted.map(([name]) => name).filter((name) => isNew(name) && !controllers.includes(name));
  const found = [
    ...daemonSets.length > 0 ? [`the pods of these DaemonSets are not Ready: ${named(daemonSets)}`] : [],
    ...controllers.length > 0 ? [`pods of these controllers cannot start: ${named(controllers)}`] : [],
    ...crashing.length > 0 ? [`pods of these controllers were restarted just now: ${named(crashing)}`] : []
  ];
  return found.length === 0 ? void 0 : `on it, ${found.join("; ")}`;
}
function unreadyBefore({ record: record9 }) {
  return record9.unreadyBefore ?? [];
}
function isRecent(seenAt, now) {
  return !now.reached(seenAt + RECHECK_MS2);
}
function named(names) {
  const more = names.length > MAX_NAMED6 ? ` and ${names.length - MAX_NAMED6} more` : "";
  return `${names.slice(0, MAX_NAMED6).join(", ")}${more}`;
}
function temporaryProblem({ status }, node) {
  if (!node.ready) return "the Node is not Ready";
  if (status === void 0 || node.bootID !== "" && status.bootID !== "" && status.bootID !== node.bootID) {
    return "the agent has not reported since the latest boot";
  }
  return void 0;
}
function lastingProblem({ spec, status }, node) {
  if (cordonedByUs(node)) return `the Node still has the annotation ${CORDONED_ANNOTATION}`;
  const running = status?.current_version ?? "";
  if (sameVersion(running, spec.version ?? "")) return void 0;
  return `the node runs ${running} instead of ${spec.version ?? "the new version"}`;
}

// packages/controller/src/plan/facts/quorums.ts
function shownCount({ name, members: members2, ready: ready3, message }) {
  return {
    name,
    members: members2,
    ...ready3 !== void 0 && { ready: ready3 },
    ...message !== "" && { message: printable(message) }
  };
}
function isSameCount(found, last) {
  const isSame5 = last.name === found.name && last.members === found.members && last.ready === found.ready;
  return isSame5 && last.message === found.message;
}
var Quorums = class {
  #quorums;
  #nodes;
  #lists;
  /** What users see of them; undefined: there is no configuration. */
  #shown;
  /** Of the members that were on the nodes when their updates started. */
  records;
  /** Names of the nodes that hold an update slot, those that start in this plan included. */
  #updating;
  /** Names of those that may be drained, those whose drain begins in this plan included. */
  #drained;
  /** Names of the nodes that go before the last members. */
  #first;
  /** @param slots - the nodes that hold an update slot */
  constructor(view, slots, now) {
    const { policy, nodes, managedNodes, memberPods, config } = view;
    const isUsed = policy.quorums.length > 0;
    const holders = isUsed ? [...slots] : [];
    const cordoned2 = isUsed ? nodes.filter(ownedByUs).map(({ metadata: { name } }) => name) : [];
    this.#quorums = policy.quorums;
    this.#nodes = new Map(isUsed ? nodes.map((node) => [node.metadata.name, node]) : []);
    this.#lists = new QuorumLists(memberPods, this.#nodes, now);
    this.#shown = config && (config.status?.quorums ?? []);
    this.records = new QuorumRecords(policy.quorums, this.#nodes, this.#lists);
    this.#updating = /* @__PURE__ */ new Set([...holders.map(({ name }) => name), ...cordoned2]);
    this.#drained = /* @__PURE__ */ new Set([
      ...holders.filter(({ shadow: shadow2 }) => shadow2 === void 0 || !isStaging(shadow2)).map(({ name }) => name),
      ...cordoned2
    ]);
    this.#first = /* @__PURE__ */ new Set([
      ...this.#updating,
      ...(isUsed ? managedNodes.filter(isUnsettled) : []).map(({ name }) => name)
    ]);
  }
  /** False: there are no sets, and no node waits for one. */
  get isUsed() {
    return this.#quorums.length > 0;
  }
  /** Names of the sets that have, or may have, a member on the node. */
  setsOn(asked) {
    return new Set(this.#quorums.filter((quorum2) => this.#mayHave(quorum2, asked)).map(({ name }) => name));
  }
  /** Returns why this node must not start its update, or restart its services. */
  whyNotStarted(asked) {
    return this.#check(asked, this.#updating);
  }
  /** Returns why this node, which is staged, must not be drained. */
  whyNotDrained(asked) {
    return this.#check(asked, this.#drained);
  }
  /** Returns why a node with a member that goes after the others must not start yet. */
  whyNotLast({ node: { metadata: metadata13 } }) {
    for (const quorum2 of this.#quorums.filter(({ last }) => last !== void 0)) {
      const members2 = this.#lists.membersOf(quorum2);
      const own2 = members2.find((one) => one.node === metadata13.name && one.isLast);
      if (own2 === void 0) continue;
      const others = members2.filter((one) => one.node !== metadata13.name && !one.isLast).map((one) => one.node);
      const first = namesOf([...new Set(others)].filter((name) => this.#first.has(name)));
      if (first === "") continue;
      return atRisk(
        `The quorum ${quorum2.name}: ${own2.pod} on ${metadata13.name} goes last, after the members on ${first}`
      );
    }
    return void 0;
  }
  /** True for a node with a member that goes after the others, by the latest list. */
  isLast({ metadata: { name } }) {
    return this.#quorums.some(
      (quorum2) => quorum2.last !== void 0 && this.#lists.membersOf(quorum2).some((one) => one.isLast && one.node === name)
    );
  }
  /** Counts a node that starts. */
  starts({ metadata: { name } }) {
    this.#updating.add(name);
    this.#first.add(name);
  }
  /** Counts a node whose drain begins. */
  drains({ metadata: { name } }) {
    this.#drained.add(name);
  }
  /** Counts a node that is about to start: the last members wait for it. */
  goesFirst({ metadata: { name } }) {
    this.#first.add(name);
  }
  /** The checks that the sets with a member on the node ask for. */
  checksFor(asked) {
    return this.#quorums.filter((quorum2) => quorum2.checks.length > 0 && this.#mayHave(quorum2, asked)).flatMap((quorum2) => {
      const own2 = this.#lists.membersOf(quorum2).filter(({ node }) => node === asked.node.metadata.name);
      return quorum2.checks.map((check8) => ({
        check: check8,
        who: `The quorum ${quorum2.name}: ${whoIs(asked.node.metadata.name, own2)}`
      }));
    });
  }
  /** What to do with the lists of members. One is kept until the last node is back, and the status has its count. */
  get wanted() {
    const { list: list2, keep } = this.#lists.wanted;
    const isAway2 = ({ node }) => this.#updating.has(node);
    const counts2 = new Map(this.counts.map((count2) => [count2.name, count2]));
    const kept = this.#quorums.filter(
      (quorum2) => this.#lists.membersOf(quorum2).some(isAway2) || !this.#isShown(counts2.get(quorum2.name))
    );
    return { list: list2, keep: /* @__PURE__ */ new Set([...keep, ...kept.map(membersKey)]) };
  }
  #isShown(count2) {
    if (count2 === void 0 || this.#shown === void 0) return true;
    return this.#shown.some((one) => isSameCount(shownCount(count2), one));
  }
  /** When members must be listed again, epoch milliseconds. */
  get times() {
    return this.#lists.times;
  }
  /** Of the sets whose members are known. */
  get counts() {
    return this.#quorums.flatMap((quorum2) => {
      const list2 = this.#lists.known(quorum2);
      return list2 === void 0 ? [] : [this.#countOf(quorum2, list2)];
    });
  }
  #countOf(quorum2, { problem }) {
    const members2 = this.#lists.membersOf(quorum2);
    const n = Math.max(quorum2.members, members2.length);
    if (problem !== void 0)
      return { name: quorum2.name, members: n, ready: void 0, message: notListed(quorum2, problem) };
    const away = members2.flatMap((one) => whyAway(one, this.#nodes, this.#drained) ?? []);
    const message = describe2(away, n - members2.length, n);
    return { name: quorum2.name, members: n, ready: members2.length - away.length, message };
  }
  #check(asked, busy) {
    for (const quorum2 of this.#quorums) {
      const blocked3 = this.#mayHave(quorum2, asked) ? this.#checkQuorum(quorum2, asked, busy) : void 0;
      if (blocked3 !== void 0) return blocked3;
    }
    return void 0;
  }
  /** By the pods on the node, by the latest list, or because a static pod of it may be missing. */
  #mayHave(quorum2, { node, pods }) {
    if (countsStaticPods(quorum2, node)) return true;
    if (this.#lists.membersOf(quorum2).some((one) => one.node === node.metadata.name)) return true;
    return pods.some((pod) => isSelectedBy(quorum2, pod) && (!pod.mirror || quorum2.nodeSelector === void 0));
  }
  #checkQuorum(quorum2, asked, busy) {
    const unusable = whyUncountable(quorum2, asked.pods);
    if (unusable !== void 0) return unusable;
    const list2 = this.#lists.request(quorum2);
    if (list2?.problem !== void 0) {
      return { reason: "PodListFailed", message: notListed(quorum2, list2.problem), retryAt: list2.nextAt };
    }
    const unknown7 = { ...atRisk(`The members of the quorum ${quorum2.name} are being listed`), isUnknown: true };
    if (list2?.asOf === void 0) return unknown7;
    return whyTooFew(quorum2, this.#countWithout(quorum2, asked.node, busy)) ?? (this.#lists.counts(list2) ? void 0 : unknown7);
  }
  #countWithout(quorum2, node, busy) {
    const { name } = node.metadata;
    const members2 = this.#lists.membersOf(quorum2);
    const own2 = members2.filter((one) => one.node === name);
    const away = members2.filter((one) => one.node !== name).flatMap((one) => whyAway(one, this.#nodes, busy) ?? []);
    const n = Math.max(quorum2.members, members2.length);
    const missing2 = n - members2.length;
    const isOwnMissing = own2.length === 0 && missing2 > 0 && countsStaticPods(quorum2, node);
    return { node: name, n, own: own2, away, isOwnMissing, missing: isOwnMissing ? missing2 - 1 : missing2 };
  }
};
function isUnsettled({ node, shadow: shadow2 }) {
  return node !== void 0 && skippedBy(node) === void 0 && shadow2 !== void 0 && !isSettled(shadow2);
}

// packages/controller/src/plan/facts/slots.ts
function slotOf(managedNode, now) {
  const { node, policy } = managedNode;
  if (node === void 0) return void 0;
  const slot = isPair(managedNode) ? slotOfPair(managedNode, now) ?? slotOfHooks(managedNode, now) : slotWithoutRecord({ ...managedNode, shadow: void 0 }, node);
  if (slot === void 0 || !now.reached(slot.deadline)) return slot;
  return slot.expires || isAccepted(slot.deadline, policy, now) ? void 0 : slot;
}
function slotOfPair(pair, now) {
  const { shadow: shadow2, policy } = pair;
  if (isUnderWay(shadow2)) return { deadline: deadlineOf(shadow2, policy, now), expires: false };
  const rollback = pendingRollback(shadow2, policy, now);
  if (rollback !== void 0) return { deadline: startDeadline(rollback), expires: false };
  const failedAt2 = failedCheckAt({ ...pair, now });
  if (failedAt2 !== void 0) return { deadline: failedAt2, expires: false };
  if (shadow2.record.rebootRequestedAt !== void 0) return slotAfterReboot(pair, now);
  return shadow2.record.startedAt !== void 0 ? void 0 : slotWithoutRecord(pair, pair.node);
}
function slotOfSettings({ shadow: shadow2 }, facts) {
  if (awaitsRestore(facts)) return { deadline: facts.rebootFailedAt + START_LIMIT_MS, expires: false };
  if (facts === void 0 || !isChanging(facts) || !covers(shadow2?.spec.settings?.allow, "RestartsService"))
    return void 0;
  return { deadline: facts.changesAt ?? Infinity, expires: true };
}
var TAINT_PROVING_MS = 6e4;
function slotOfTaints({ evictedSince = -Infinity }, now) {
  const deadline = evictedSince + TAINT_PROVING_MS;
  return now.reached(deadline) ? void 0 : { deadline, expires: true };
}
function slotOfHooks(pair, now) {
  const { shadow: shadow2, policy } = pair;
  if (!hasHooksLeft(pair)) return void 0;
  return { deadline: notRespondingAt(shadow2, now) + msOfHooksAfter(policy), expires: true };
}
function slotAfterReboot(pair, now) {
  const { node, shadow: shadow2, policy } = pair;
  const since = idleSince(shadow2, now);
  const isOwned = ownedByUs(node);
  if (isSettled(shadow2)) return isOwned ? { deadline: since + STEP_LIMITS_MS.Reboot, expires: true } : void 0;
  if (isOwned) return { deadline: since + drainAndRebootMs(policy), expires: false };
  const deadline = Math.max(notRespondingAt(shadow2, now), rebootUntil(pair, now) ?? 0);
  return { deadline, expires: !awaitsAgent(shadow2) };
}
function slotWithoutRecord({ shadow: shadow2, missingSince, former: former2, policy }, node) {
  const lastsMs = msWithoutRecord(shadow2, node, policy);
  if (lastsMs === void 0) return void 0;
  const since = shadow2 === void 0 ? missingSince : shadow2.times.createdAt ?? 0;
  return { deadline: Math.min(since + lastsMs, former2?.slotUntil ?? Infinity), expires: true };
}
function msWithoutRecord(shadow2, node, policy) {
  const isIdle = shadow2 !== void 0 && isSettled(shadow2);
  if (ownedByUs(node) && !isIdle) return drainAndRebootMs(policy);
  const tells = ownedByUs(node) || !isIdle && shadow2?.status !== void 0;
  return tells ? STEP_LIMITS_MS.Reboot : void 0;
}
function drainAndRebootMs(policy) {
  return limitMs({ state: "RebootedIntoUpdate" }, policy);
}
function awaitsAgent({ status }) {
  if (status === void 0) return false;
  const { current_state, lastOperation: lastOperation3 } = status;
  if (current_state === "Idle" && lastOperation3?.state !== "Processing") return false;
  return lastOperation3 === void 0 || lastOperation3.operation === "Stage";
}

// packages/controller/src/plan/facts/versions.ts
var MIN_NODES = 2;
function countOf3(counts2, version3) {
  const known = counts2.get(version3) ?? { running: 0, offered: 0 };
  counts2.set(version3, known);
  return known;
}
function versionsOf(nodes) {
  const texts2 = /* @__PURE__ */ new Map();
  let reports2 = 0;
  for (const { shadow: shadow2 } of nodes) {
    if (shadow2?.status === void 0) continue;
    reports2 += 1;
    const { current_version: running, target_version: offered } = shadow2.status;
    if (running === "") continue;
    countOf3(texts2, running).running += 1;
    if (offered !== "" && offered !== running && !sameVersion(offered, running)) countOf3(texts2, offered).offered += 1;
  }
  const releases = /* @__PURE__ */ new Map();
  const enough = Math.min(MIN_NODES, reports2);
  for (const [text6, count2] of texts2) {
    const { version: version3, ...before } = releases.get(releaseOf(text6)) ?? { version: text6, running: 0, offered: 0 };
    const sum = { running: before.running + count2.running, offered: before.offered + count2.offered };
    releases.set(releaseOf(text6), { version: version3, ...sum, hasAge: sum.running + sum.offered >= enough });
  }
  return [...releases.values()];
}
function agesSince(version3, counts2, known, now) {
  if (!counts2.some((one) => one.hasAge && sameVersion(one.version, version3))) return void 0;
  return parseTime(known.find((one) => sameVersion(one.version, version3))?.firstOfferedTime) ?? now;
}

// packages/controller/src/plan/group-order.ts
var GroupOrder = class {
  #input;
  #groups;
  #members;
  #progressByKey = /* @__PURE__ */ new Map();
  #waitsFor = /* @__PURE__ */ new Map();
  constructor(input) {
    this.#input = input;
    this.#groups = new Map(input.groups.map((group2) => [group2.name, group2]));
    this.#members = Map.groupBy(input.selected, ({ group: group2 }) => group2?.name);
  }
  /**
   * Why the node must not start its update to `version`, or undefined. The messages name no nodes, so that a step of one node
   * does not rewrite the conditions of all that wait; {@link waitsFor} has them.
   */
  check({ group: group2 }, version3) {
    if (group2 === void 0 || group2.after.length === 0) return void 0;
    const earlier = group2.after.filter((name) => this.#updatesTo(name, version3));
    const outdated = earlier.find((name) => this.#progress(name, version3).isOutdated);
    const own2 = `spec.after of ${NODE_GROUP_KIND} "${group2.name}"`;
    if (outdated !== void 0) {
      const nodes = this.#progress(outdated, version3).outdated;
      this.#waitsFor.set(group2.name, { name: outdated, version: version3, nodes });
      const which = `${NODE_GROUP_KIND} "${outdated}"`;
      const message2 = nodes.length === 0 ? `${which} has no nodes, and is to go first (${own2})` : `Nodes of ${which} must run ${version3} or a later version first, and be Ready (${own2}). The condition Progressing of "${group2.name}" names them`;
      return { reason: "WaitingForNodeGroup", message: message2 };
    }
    const retryAt = Math.max(0, ...earlier.map((name) => this.#progress(name, version3).since)) + group2.soakMs;
    if (earlier.length === 0 || retryAt <= this.#input.now) return void 0;
    const message = `The groups that go first (${own2}) have updated; spec.soak of the group ends at ${rfc3339(retryAt)}`;
    return { reason: "Soaking", message, retryAt };
  }
  /** The group for which nodes of the group `name` wait, after {@link check}. */
  waitsFor(name) {
    return this.#waitsFor.get(name);
  }
  #updatesTo(name, version3) {
    const group2 = this.#groups.get(name);
    return group2 !== void 0 && isWanted(version3, group2.policy.versions);
  }
  #progress(name, version3) {
    const key2 = `${name} ${version3}`;
    const progress = this.#progressByKey.get(key2) ?? this.#progressOf(this.#members.get(name) ?? [], version3);
    this.#progressByKey.set(key2, progress);
    return progress;
  }
  #progressOf(members2, version3) {
    const counted = members2.filter(({ node }) => node !== void 0 && skippedBy(node) === void 0);
    const outdated = counted.filter((member) => !this.#isDone(member, version3)).map(({ name }) => name);
    const isOutdated2 = members2.length === 0 || outdated.length > 0;
    return {
      isOutdated: isOutdated2,
      outdated,
      since: Math.max(this.#input.offeredSince(version3) ?? 0, this.#doneSince(counted, version3))
    };
  }
  #isDone(member, version3) {
    if (!isPair(member) || isUnderWay(member.shadow) || isDown(member.node)) return false;
    const running = member.shadow.status?.current_version ?? "";
    const { failed: failed2, now } = this.#input;
    const isCounted = ({ since }) => !isAccepted(since, member.policy, new Moment(now));
    const hasFailed = failed2.some(
      (one) => one.name === member.name && sameVersion(one.version, running) && isCounted(one)
    );
    return !hasFailed && isAtOrBeyond(running, version3, member.policy.versions);
  }
  /** A time in the future is of a clock that was wrong. */
  #doneSince(members2, version3) {
    const known = (at2) => at2 === void 0 || at2 > this.#input.now + CLOCK_TOLERANCE_MS ? [] : [at2];
    const successes = members2.flatMap(({ shadow: shadow2, policy }) => {
      const last = shadow2 === void 0 ? void 0 : shadow2.updated;
      return last !== void 0 && isAtOrBeyond(last.version, version3, policy.versions) ? known(last.at) : [];
    });
    if (successes.length > 0) return Math.max(...successes);
    const joins = members2.flatMap(({ node }) => known(node?.createdAt));
    return joins.length > 0 ? Math.min(...joins) : 0;
  }
};

// packages/controller/src/plan/canaries.ts
var Canaries = class {
  #policy;
  /** The name of the group whose `spec.rollout` counts; undefined: that of the configuration does. */
  #group;
  #now;
  /** By release. */
  #phases;
  /** @param selected - the nodes that the configuration selects: of the group, or of the fleet */
  constructor(selected2, input, now) {
    const { policy, before, checks: checks3, group: group2 } = input;
    this.#policy = policy;
    this.#group = group2?.name;
    this.#now = now;
    const isClockRight = !isClockWrong(input.clockSkewMs);
    const isPast = ({ since }) => !isClockRight || since <= now + CLOCK_TOLERANCE_MS;
    const known = recorded(before).filter(isPast);
    const nodes = selected2.filter(({ node }) => skippedBy(node) === void 0);
    const parts = isOff(policy) ? [] : nodes.flatMap((pair) => partsOf2(pair, now));
    const ofPhase = { nodes, policy, checks: checks3, isClockRight, known, now };
    const byRelease = [...Map.groupBy(parts, ({ version: version3 }) => releaseOf(version3))];
    this.#phases = new Map(byRelease.map(([release3, of]) => [release3, phaseOf(release3, of, ofPhase)]));
  }
  /** For the status. */
  get completed() {
    return [...this.#phases.values()].flatMap(
      ({ version: version3, since }) => since === void 0 ? [] : [{ version: version3, since }]
    );
  }
  /** When to check again, epoch milliseconds. */
  get times() {
    return [...this.#phases.values()].flatMap(({ healthyTimes }) => healthyTimes);
  }
  /** Returns why a node must not start an update to `version`, or undefined. */
  check(node, version3) {
    const phase2 = this.#phases.get(releaseOf(version3));
    if (phase2 === void 0) return void 0;
    if (phase2.includesAll) return this.#approval(version3);
    const { rollout: rollout2 } = this.#policy;
    if (phase2.since === void 0) {
      const goesFirst = isCanary(node, this.#policy) && phase2.succeeded + phase2.updating < phase2.needed;
      return goesFirst ? void 0 : { reason: "WaitingForCanary", message: this.#describe(phase2) };
    }
    const retryAt = phase2.since + rollout2.soakMs;
    if (this.#now >= retryAt) return this.#approval(version3);
    const whose = this.#group === void 0 ? "" : ` of ${objectOf(this.#group)}`;
    const message = `The canaries run ${version3}, and soak until ${rfc3339(retryAt)} (spec.rollout.soak${whose})`;
    return { reason: "Soaking", message, retryAt };
  }
  /** Counts a node that starts. */
  reserve(node, version3) {
    const phase2 = this.#phases.get(releaseOf(version3));
    if (phase2 !== void 0 && isCanary(node, this.#policy)) phase2.updating += 1;
  }
  #approval(version3) {
    const { approval, approvedVersion } = this.#policy.rollout;
    if (approval === "NotRequired" || sameVersion(approvedVersion, version3)) return void 0;
    const message = `${version3} needs an approval: set spec.rollout.approvedVersion of ${objectOf(this.#group)} to ${version3}`;
    return { reason: "WaitingForApproval", message };
  }
  #describe(phase2) {
    const { nodeSelector: nodeSelector2 } = this.#policy.rollout.canary;
    return describe4(phase2, nodeSelector2 && `spec.rollout.canary.nodeSelector of ${objectOf(this.#group)}`);
  }
};
function isOff({ rollout: { canary, approval } }) {
  const { nodes, nodeSelector: nodeSelector2 } = canary;
  return nodeSelector2 === void 0 && "percent" in nodes && nodes.percent === 100 && approval === "NotRequired";
}
function isCanary({ metadata: { labels = {} } }, { rollout: { canary } }) {
  return canary.nodeSelector === void 0 || selects(canary.nodeSelector, labels);
}
function partsOf2(pair, now) {
  const { status, updated: updated2 } = pair.shadow;
  if (status === void 0) return [];
  const { current_version: version3 } = status;
  const hasSucceeded = sameVersion(updated2?.version, version3) && !isPrevious(pair.shadow, version3);
  return [...hasSucceeded ? [{ pair, version: version3, role: "succeeded" }] : [], ...nextPartOf(pair, status, now)];
}
function nextPartOf(pair, { current_version, target_version }, now) {
  const { shadow: shadow2, policy } = pair;
  if (shadow2.purpose === "Update") {
    const role = isOverdue(shadow2, policy, new Moment(now)) ? "late" : "updating";
    return [{ pair, version: shadow2.spec.version ?? "", role }];
  }
  if (shadow2.purpose !== void 0) return [];
  const version3 = wantedVersion(target_version, policy.versions);
  return version3 === "" || sameVersion(version3, current_version) ? [] : [{ pair, version: version3, role: "waiting" }];
}
function phaseOf(version3, parts, input) {
  const { nodes, policy, now } = input;
  const canaries = parts.filter(({ pair }) => isCanary(pair.node, policy));
  const ofRole = (role) => canaries.flatMap((one) => one.role === role ? one.pair : []);
  const [succeeded2, updating2] = [ofRole("succeeded"), ofRole("updating")];
  const updated2 = new Set(succeeded2);
  const mayUpdate = (pair) => !runs(pair, version3) && isWanted(version3, pair.policy.versions);
  const usable = nodes.filter((pair) => updated2.has(pair) || mayUpdate(pair));
  const eligible = usable.filter(({ node }) => isCanary(node, policy));
  const needed = Math.min(eligible.length, nodesAtOnce(policy.rollout.canary.nodes, eligible.length));
  const unhealthy = succeeded2.filter((pair) => healthyFrom(pair) > now);
  const isProved2 = needed > 0 && succeeded2.length >= needed && unhealthy.length === 0;
  const isAwaited2 = parts.some(({ role }) => role !== "succeeded");
  const before = input.known.find((one) => sameVersion(one.version, version3))?.since;
  const needsEach = needed >= eligible.length;
  const known = new Set(canaries.map(({ pair }) => pair));
  const others = eligible.filter((pair) => !known.has(pair));
  return {
    version: version3,
    needed,
    succeeded: succeeded2.length,
    updating: updating2.length,
    pending: [...ofRole("late"), ...needsEach ? [...updating2, ...ofRole("waiting"), ...others] : []].map(nameOf),
    unhealthy: unhealthy.map(({ name }) => name),
    includesAll: needed > 0 && needed >= usable.length,
    ...soakOf(before, isProved2 ? succeeded2 : void 0, isAwaited2, input),
    healthyTimes: unhealthy.map(healthyFrom).filter((from) => from < Infinity)
  };
}
function nameOf({ name, node, shadow: shadow2, policy }) {
  const { current_version: running, target_version: offered = "" } = shadow2.status ?? {};
  const isOffered = !sameVersion(wantedVersion(offered, policy.versions), running);
  if (shadow2.purpose !== void 0 || isOffered) return name;
  return `${name} ${isDown(node) ? "(not Ready)" : "(not offered it)"}`;
}
function soakOf(before, proved, isAwaited2, { policy, checks: checks3, isClockRight, now }) {
  const none = { since: void 0, failedCheck: void 0 };
  if (before !== void 0 && now >= before + policy.rollout.soakMs) return { ...none, since: before };
  if (proved === void 0 || before === void 0 && !isAwaited2) return none;
  const policies = new Set(proved.map((one) => one.policy));
  const found = checks3.all([...policies].flatMap((one) => probesOf(one, "After")));
  const failedCheck = problemIn(found);
  if (failedCheck !== void 0) return { ...none, failedCheck };
  const isKnown2 = found.every(({ latest: latest3 }) => latest3 !== void 0);
  return { ...none, since: before ?? (isKnown2 && isClockRight ? now : void 0) };
}
function runs({ shadow: shadow2, policy }, version3) {
  const running = shadow2.status?.current_version;
  return running === void 0 || isAtOrBeyond(running, version3, policy.versions);
}
function healthyFrom({ node, policy }) {
  const hasProblem = policy.health.unhealthyNodes === "Wait" && problemCondition(node, policy) !== void 0;
  if (isDown(node) || hasProblem) return Infinity;
  return (node.readySince ?? 0) + policy.monitoring.healthyForMs;
}
function describe4(phase2, selector) {
  const { version: version3, needed, succeeded: succeeded2, pending: pending2, unhealthy, failedCheck } = phase2;
  if (needed === 0)
    return selector !== void 0 ? `${selector} selects no node that updates to ${version3}, so no node starts` : `No node can be a canary for ${version3}, so no node starts`;
  const canaries = `${needed} ${needed === 1 ? "canary" : "canaries"}`;
  const whose = selector === void 0 ? "" : ` that ${selector} selects`;
  const first = `${canaries}${whose} must update to ${version3} before the other nodes`;
  if (succeeded2 >= needed && unhealthy.length > 0) return `${first}; updated, but not healthy: ${namesOf(unhealthy)}`;
  if (failedCheck !== void 0) return `${first}; updated, but ${failedCheck}`;
  return pending2.length > 0 ? `${first}; not updated: ${namesOf(pending2)}` : first;
}

// packages/controller/src/plan/lanes.ts
function outside(nodes, lane) {
  return nodes.filter(({ group: group2 }) => group2?.lanes.has(lane) !== true);
}
function lanesOf(groups, nodes, lane) {
  const own2 = groups.filter(({ lanes }) => lanes.has(lane));
  if (own2.length === 0) return [];
  const byGroup = Map.groupBy(nodes, ({ group: group2 }) => group2?.name);
  return own2.map((group2) => [group2, byGroup.get(group2.name) ?? []]);
}
function groupFreezes(failed2, { groups, groupsBefore }, selected2, now) {
  const moment = new Moment(now);
  const freezes = lanesOf(groups, selected2, "budget").map(([{ name, policy }, nodes]) => {
    const own2 = failed2.filter((one) => one.group === name && !isAccepted(one.since, policy, moment));
    const before = groupsBefore.get(name)?.frozenVersions;
    const lane = { managedNodes: nodes, selected: nodes, versions: versionsOf(nodes) };
    const frozen2 = frozenVersions(own2, { ...lane, policy, before, now });
    return [name, { failed: own2, frozen: frozen2.map((one) => ({ ...one, group: name })) }];
  });
  return new Map(freezes);
}
var CanaryLanes = class {
  #fleet;
  #ofGroups;
  /** @param selected - the nodes that the configuration selects */
  constructor(selected2, fleet, now) {
    const { groups, groupsBefore, before } = fleet;
    const pairs = selected2.filter(isPair);
    this.#fleet = new Canaries(outside(pairs, "canaries"), { ...fleet, before: before?.canaries }, now);
    this.#ofGroups = new Map(
      lanesOf(groups, pairs, "canaries").map(([group2, nodes]) => {
        const own2 = { policy: group2.policy, before: groupsBefore.get(group2.name)?.canaries, group: group2 };
        return [group2.name, new Canaries(nodes, { ...fleet, ...own2 }, now)];
      })
    );
  }
  /** For the status of the configuration, or of the group with this name. */
  completed(group2) {
    return (group2 === void 0 ? this.#fleet : this.#ofGroups.get(group2))?.completed ?? [];
  }
  /** When to check again, epoch milliseconds. */
  get times() {
    return [this.#fleet, ...this.#ofGroups.values()].flatMap(({ times }) => times);
  }
  /** Returns why a node must not start an update to `version`, or undefined. */
  check(pair, version3) {
    return this.#of(pair).check(pair.node, version3);
  }
  /** Counts a node that starts. */
  reserve(pair, version3) {
    this.#of(pair).reserve(pair.node, version3);
  }
  #of({ group: group2 }) {
    return (group2 && this.#ofGroups.get(group2.name)) ?? this.#fleet;
  }
};

// packages/controller/src/plan/observation.ts
var HOLD_MS = 36e5;
var FIRST_NODES = 10;
var GRACE_MS = 6e4;
var RECHECK_MS3 = 6e4;
var MAX_RECHECK_MS = 6e5;
var MAX_SUSPECTS = 10;
var Observation = class {
  #now;
  #drains;
  #workloads;
  #pairs;
  #observed;
  holds;
  /** The workloads that fail, without those that a user has accepted. */
  suspects;
  /** By release, as all that follow. */
  #held;
  /** Those that may not be held again. */
  #over;
  /** How many nodes have updated to it, and when the latest one did, epoch milliseconds. */
  #successes;
  /** What was answered to nodes that are to start. */
  #unknown = /* @__PURE__ */ new Map();
  /** Whether a workload fails on a version only, as all pods show it. */
  #confirmed = /* @__PURE__ */ new Map();
  /** The version of each node. */
  #running;
  constructor(known, { drains, workloads }, now) {
    this.#now = now;
    this.#drains = drains;
    this.#workloads = workloads;
    this.#pairs = known.managedNodes.filter(isPair);
    const before = new ReadyBefore(this.#pairs, now);
    this.#observed = this.#pairs.flatMap((pair) => observedOf(pair, known.observed, before, now) ?? []);
    const moment = new Moment(now);
    this.suspects = this.#pairs.flatMap((one) => suspectsOf(one, moment, known.policy));
    this.holds = holdsOf(this.suspects, this.#pairs, known, moment);
    this.#held = new Map(this.holds.flatMap((one) => one.suspects.length > 0 ? [blockedBy(one)] : []));
    this.#over = new Set(this.holds.flatMap(({ version: version3, isOver }) => isOver ? [releaseOf(version3)] : []));
    this.#successes = successesOf(this.#pairs, new Set(this.#observed.map(({ version: version3 }) => releaseOf(version3))));
  }
  /** Names of the nodes of whose pods something is kept. */
  get names() {
    return new Set(this.#observed.map(({ pair }) => pair.name));
  }
  /** The nodes whose pods must be listed now. */
  get lookUps() {
    const due = this.#observed.filter((one) => this.#isDue(one));
    for (const { pair } of due) this.#drains.requested.add(pair.name);
    return due.map(({ pair }) => pair.node);
  }
  /** When to look again, epoch milliseconds. */
  get times() {
    const holds = this.holds.flatMap(({ until, suspects }) => suspects.length > 0 ? [until] : []);
    return [...this.#observed.map((one) => dueAt(one, this.#now)), ...holds];
  }
  /** What is to be recorded. All pods are listed before a suspect is recorded. */
  get changes() {
    return this.#observed.flatMap((one) => this.#changeOf(one) ?? []);
  }
  /** What gates ask. A reboot for settings does not change the version. */
  gateInput({ version: version3, isReboot }) {
    if (isReboot) return { held: void 0, unobserved: () => void 0 };
    return { held: this.#held.get(releaseOf(version3)), unobserved: () => this.#unknownOf(releaseOf(version3)) };
  }
  /** Why it is not known yet whether workloads fail on the first nodes that run the version. Asks for what is missing. */
  #unknownOf(release3) {
    if (!this.#unknown.has(release3)) this.#unknown.set(release3, this.#whyUnknown(release3));
    return this.#unknown.get(release3);
  }
  #whyUnknown(release3) {
    const { count: count2 } = this.#successes.get(release3) ?? { count: 0 };
    if (count2 > FIRST_NODES || this.#over.has(release3)) return void 0;
    const ofVersion = this.#observed.filter(({ version: version3 }) => releaseOf(version3) === release3);
    const missing2 = ofVersion.filter((one) => this.#isMissing(one)).map(({ pair }) => pair);
    const [first] = missing2;
    if (first !== void 0) {
      const { problem } = this.#drains.known(first.node, first.policy);
      const message = `The pods on ${namesOf(missing2.map(({ name }) => name))}, whose update has succeeded, are being listed`;
      return problem === void 0 ? { reason: "PodListFailed", message, isUnknown: true } : { reason: "PodListFailed", message: `${message}: ${problem}`, keepsPosition: true };
    }
    if (!ofVersion.some((one) => this.#isUnconfirmed(one) || this.#isSoonKnown(one))) return void 0;
    return { reason: "PodListFailed", message: "It is being found out whether workloads fail", isUnknown: true };
  }
  #isDue(one) {
    const isDemanded = this.#unknown.has(releaseOf(one.version)) && this.#isMissing(one);
    return isDemanded || this.#now >= dueAt(one, this.#now);
  }
  /** True for one of the first nodes of its version that was not listed yet, after another one has succeeded. */
  #isMissing({ pair, version: version3, since, suspects }) {
    const { count: count2, latest: latest3 } = this.#successes.get(releaseOf(version3)) ?? { count: 0, latest: 0 };
    const isOver = this.#now >= since + pair.policy.health.watchForMs + GRACE_MS;
    return suspects === void 0 && !isOver && count2 <= FIRST_NODES && latest3 > since;
  }
  /** True for one of the first nodes while a pod on it is not Ready, and counts soon unless it becomes so. */
  #isSoonKnown({ listedAt, nextAt }) {
    const [last = 0] = listedAt;
    return listedAt.length === 1 && this.#now <= nextAt && nextAt - last <= RECHECK_MS3;
  }
  /** True while all pods are being listed for a new suspect of the node. */
  #isUnconfirmed(one) {
    return (one.suspects ?? []).some((suspect) => this.#isConfirmed(one, suspect) === void 0);
  }
  #changeOf(one) {
    const { pair, suspects: found } = one;
    if (found === void 0) return void 0;
    const known = pair.shadow.record.suspects ?? [];
    const suspects = found.filter((suspect) => this.#isConfirmed(one, suspect) === true).map((suspect) => known.find(isOf(suspect)) ?? { ...suspect, at: rfc3339(this.#now) });
    return isSame4(known, suspects) ? void 0 : { pair, suspects };
  }
  /** Undefined: not known yet. Without a list of all pods, what was found counts. */
  #isConfirmed({ pair, version: version3, listedAt }, suspect) {
    if (pair.shadow.record.suspects?.some(isOf(suspect)) === true) return true;
    const pods = this.#workloads.podsSince((listedAt.length > 2 ? listedAt.at(-2) : listedAt.at(-1)) ?? 0);
    if (pods === void 0) return this.#workloads.problem === void 0 ? void 0 : true;
    const key2 = `${releaseOf(version3)} ${suspect.workload}`;
    const known = this.#confirmed.get(key2) ?? this.#failsOnlyOn(version3, pods, suspect);
    this.#confirmed.set(key2, known);
    return known;
  }
  /** False when the workload fails on nodes of other versions as well. */
  #failsOnlyOn(version3, pods, suspect) {
    this.#running ??= new Map(this.#pairs.map(({ name, shadow: { status } }) => [name, status?.current_version ?? ""]));
    const running = this.#running;
    const others = (byController(pods).get(controllerOf2(suspect)) ?? []).filter(
      ({ node, isTerminating: isTerminating2 }) => node !== "" && !isTerminating2 && !sameVersion(running.get(node), version3)
    );
    const unready = others.filter(({ ready: ready3 }) => !ready3);
    return unready.length === 0 || 2 * unready.length < others.length;
  }
};
var indexes2 = /* @__PURE__ */ new WeakMap();
function byController(pods) {
  const index = indexes2.get(pods) ?? Map.groupBy(pods, ({ controller }) => controller);
  indexes2.set(pods, index);
  return index;
}
function blockedBy({ version: version3, until }) {
  const message = `Workloads fail on nodes that run ${version3}; see the condition Held of BrupopConfig "cluster"`;
  return [releaseOf(version3), { reason: "Held", message, retryAt: until }];
}
function successesOf(pairs, releases) {
  const found = /* @__PURE__ */ new Map();
  if (releases.size === 0) return found;
  for (const { shadow: shadow2 } of pairs) {
    const { version: version3 = "", at: at2 = 0 } = shadow2.updated ?? {};
    const release3 = releaseOf(version3);
    if (!releases.has(release3)) continue;
    const { count: count2, latest: latest3 } = found.get(release3) ?? { count: 0, latest: 0 };
    found.set(release3, { count: count2 + 1, latest: Math.max(latest3, at2) });
  }
  return found;
}
var isOf = ({ workload }) => (other) => other.workload === workload;
function isSame4(known, found) {
  return known.length === found.length && found.every((one) => known.includes(one));
}
function observedOf(pair, known, before, now) {
  const { updated: updated2 } = pair.shadow;
  if (updated2 === void 0 || !isDuringObservation(pair, updated2.at, now) || !runsIt(pair, updated2.version))
    return void 0;
  const { at: since, version: version3 } = updated2;
  const found = known.get(pair.name);
  const isOfNode = found?.nodeUID === pair.node.metadata.uid;
  const listedAt = isOfNode ? found.listedAt.filter((time2) => time2 > since && time2 <= now) : [];
  const last = listedAt.at(-1);
  if (found === void 0 || last === void 0)
    return { pair, version: version3, since, listedAt, suspects: void 0, nextAt: Infinity };
  const { suspects, nextAt } = suspectsAmong(
    { ...listedOn(pair, since), version: version3, pods: found.pods, listedAt: last },
    before
  );
  return { pair, version: version3, since, listedAt, suspects: suspects.slice(0, MAX_SUSPECTS), nextAt };
}
function listedOn({ name, shadow: { record: record9 }, policy: { health } }, since) {
  const drainedAt = parseTime(record9.readyBefore?.at) ?? since;
  return { node: name, drainedAt, health, known: new Set(record9.suspects?.map(({ workload }) => workload)) };
}
function isDuringObservation({ shadow: shadow2, policy }, since, now) {
  if (!isObserved(policy) || now < since) return false;
  if (now < since + policy.health.watchForMs + GRACE_MS) return true;
  const moment = new Moment(now);
  return shadow2.record.suspects?.some(({ at: at2 }) => !isAccepted(parseTime(at2) ?? 0, policy, moment)) === true;
}
function runsIt({ shadow: shadow2 }, version3) {
  const isRunning = sameVersion(shadow2.status?.current_version, version3);
  return isRunning && !isPrevious(shadow2, version3) && !isUnderWay(shadow2);
}
function dueAt({ pair, since, listedAt, suspects, nextAt }, now) {
  const { record: record9 } = pair.shadow;
  const last = listedAt.at(-1) ?? 0;
  const end = since + pair.policy.health.watchForMs;
  if (suspects === void 0) return record9.suspects === void 0 ? end : now;
  if (suspects.length > 0 || record9.suspects !== void 0) return last + recheckMs(record9, last);
  return last >= end || listedAt.length > 1 ? Infinity : Math.min(end, nextAt);
}
function recheckMs({ suspects = [] }, last) {
  const since = Math.min(last, ...suspects.map(({ at: at2 }) => parseTime(at2) ?? last));
  return Math.min(MAX_RECHECK_MS, Math.max(RECHECK_MS3, (last - since) / 6));
}
function holdsOf(all, pairs, { config, policy }, now) {
  const known = recorded(config?.status?.heldVersions).filter(({ since }) => since <= now.ms + CLOCK_TOLERANCE_MS);
  const kept = known.filter(({ version: version3 }) => pairs.some(({ shadow: shadow2 }) => hasVersion(shadow2, version3)));
  const versions = new Map([...kept, ...all].map(({ version: version3 }) => [releaseOf(version3), version3]));
  return [...versions.values()].flatMap((version3) => {
    const before = known.find((one) => sameVersion(one.version, version3))?.since;
    const since = before ?? now.ms;
    const until = since + HOLD_MS;
    const isOver = now.reached(until) || isAccepted(since, policy, now);
    const suspects = isOver ? [] : onTwoNodes(all.filter((one) => sameVersion(one.version, version3)));
    return suspects.length === 0 && before === void 0 ? [] : [{ version: version3, since, until, isOver, suspects }];
  });
}
function hasVersion({ status }, version3) {
  return sameVersion(status?.current_version, version3) || sameVersion(status?.target_version, version3);
}
function onTwoNodes(all) {
  return [...Map.groupBy(all, ({ workload }) => workload).values()].flatMap((ofOne) => {
    const nodes = new Set(ofOne.flatMap(({ node, from = node }) => [node, from]));
    return nodes.size > 1 ? ofOne : [];
  });
}

// packages/controller/src/plan/settings-rollouts.ts
var SettingsRollouts = class {
  /** By the name of each of its nodes. */
  #rollouts = /* @__PURE__ */ new Map();
  constructor({ managedNodes, policy }, settings2, now) {
    const members2 = managedNodes.flatMap((managedNode) => {
      const facts = settings2.get(managedNode.name);
      return facts === void 0 ? [] : [{ managedNode, facts }];
    });
    if (!areConcerned(members2)) return;
    for (const nodes of [...Map.groupBy(members2, keyOf4).values()].filter(areConcerned)) {
      const rollout2 = rolloutOf(nodes, nodes[0]?.managedNode.policy ?? policy, now);
      for (const { managedNode } of nodes) this.#rollouts.set(managedNode.name, rollout2);
    }
  }
  /** Returns why a node may not get its settings yet. */
  check(node, way) {
    const rollout2 = this.#triedBy(node);
    if (rollout2 === void 0) return void 0;
    const message = `The settings failed on ${rollout2.failures} nodes of the group`;
    if (rollout2.isStopped) return { reason: "HostSettingsNotApplied", message };
    return rollout2.left[way] > 0 ? void 0 : FIRST;
  }
  /** True when not even an update may bring the settings. */
  areStopped(node) {
    const { isStopped = false, failures: failures2 = 0, left } = this.#triedBy(node) ?? {};
    return isStopped || failures2 > 0 && left?.InReboot !== Infinity;
  }
  /** Counts a node that gets them. */
  reserve({ name }, way) {
    const rollout2 = this.#rollouts.get(name);
    if (rollout2 !== void 0) rollout2.left[way] -= 1;
  }
  #triedBy({ name }) {
    const rollout2 = this.#rollouts.get(name);
    return rollout2?.failed.includes(name) === true ? void 0 : rollout2;
  }
};
function areConcerned(nodes) {
  return nodes.some(({ facts }) => facts.state !== "none");
}
function keyOf4({ managedNode: { group: group2 }, facts: { hash: hash2 } }) {
  return `${group2?.name ?? ""}/${hash2}`;
}
var FIRST = {
  reason: "ChangingSettings",
  message: "One node of the group proves the settings first"
};
var NOTHING = hashOfSettings([]);
function rolloutOf(nodes, { rollout: rollout2 }, now) {
  const waiting3 = new Set(nodes.flatMap(({ facts }) => facts.pending.map(({ key: key2 }) => key2)));
  const inForce = nodes.filter(
    ({ facts: { state: state2, conflicts } }) => (state2 === "inForce" || state2 === "none") && !conflicts.some((key2) => waiting3.has(key2))
  );
  const isBooted = inForce.some((one) => isAtRest(one) && allowedAtReboot(one.facts) === "None");
  const failed2 = nodes.filter(({ facts }) => facts.state === "failed").map(({ managedNode }) => managedNode.name);
  const failures2 = failed2.length + nodes.filter((one) => isLate(one, now)).length;
  return {
    failed: failed2,
    failures: failures2,
    isStopped: failures2 > nodesAtOnce(rollout2.failureBudget, nodes.length),
    left: {
      AtRest: inForce.some(hasAny) ? Infinity : 1 - nodes.filter(({ facts }) => isChanging(facts)).length,
      InReboot: isBooted ? Infinity : 1 - nodes.filter((one) => isRebooting(one, now)).length
    }
  };
}
function hasAny({ managedNode: { shadow: shadow2 }, facts: { pending: pending2, conflicts } }) {
  const own2 = shadow2 === void 0 ? [] : ownSettings(requestedOf(shadow2));
  const open = /* @__PURE__ */ new Set([...pending2.map(({ key: key2 }) => key2), ...conflicts]);
  return own2.length === 0 || own2.some(({ key: key2 }) => !open.has(key2));
}
function isLate({ managedNode: { shadow: shadow2, policy }, facts }, now) {
  if (shadow2 === void 0 || facts.hash === NOTHING) return false;
  if (!isUnderWay(shadow2)) return facts.isLate === true;
  const isOther = facts.state === "failed" || facts.state === "requested";
  if (shadow2.purpose !== "Settings" || isOther) return false;
  const deadline = deadlineOf(shadow2, policy, now);
  return now.reached(deadline) && !isAccepted(deadline, policy, now);
}
function isRebooting({ managedNode: { shadow: shadow2, policy }, facts }, now) {
  if (shadow2 === void 0 || shadow2.purpose !== "Settings" || facts.rebootFailedAt !== void 0) return false;
  return !now.reached(deadlineOf(shadow2, policy, now));
}
function isAtRest({ managedNode: { shadow: shadow2 } }) {
  return shadow2 !== void 0 && isSettled(shadow2);
}

// packages/controller/src/plan/fleet.ts
function fleetStateOf(snapshot, now, kept) {
  const { managedNodes, config, policy } = snapshot;
  const moment = new Moment(now);
  const facts = new Map(managedNodes.map((one) => [one, kept.of(one, now, (at2) => factsOf(one, at2))]));
  const { settings: settings2, slots } = byNode(facts);
  const stuck = [...slots].flatMap(([{ node }, { deadline }]) => node !== void 0 && now >= deadline ? [node] : []);
  const unavailable = new Map([...slots].filter(([, { expires }]) => !expires));
  const selected2 = managedNodes.filter(hasNode).filter(({ node }) => isSelected(node, policy));
  const limitsOf = limitsBy(snapshot, selected2, stuck, now);
  const versions = versionsOf(selected2);
  const offeredSince = (version3) => agesSince(version3, versions, config?.status?.versions ?? [], now);
  const stale = staleResources(snapshot.watchLags);
  const asked = askedOf(snapshot, slots.keys(), moment, now);
  const isHealthUnknown = (pair) => isUnknown(pair, asked, moment);
  const groupsBefore = new Map(snapshot.groupObjects.map(({ metadata: metadata13, status }) => [metadata13.name, status]));
  const reported2 = { before: config?.status, groups: snapshot.groups, groupsBefore };
  const failed2 = failedNodes(snapshot, { selected: selected2, versions, isHealthUnknown, now: moment });
  return {
    policy,
    facts,
    settings: settings2,
    settingsRollouts: new SettingsRollouts(snapshot, settings2, moment),
    ownNamespace: snapshot.ownNamespace,
    stale,
    connectivity: snapshot.connectivity,
    clockSkewMs: snapshot.clockSkewMs,
    ...asked,
    versions,
    offeredSince,
    estimate: estimateOf(managedNodes, policy.maintenance),
    slots,
    stuck,
    orphaned: managedNodes.filter((one) => isOrphaned(one, slots)).map(({ name }) => name),
    failed: failed2,
    observation: new Observation(snapshot, asked, now),
    frozen: frozenVersions(failed2, { ...snapshot, before: config?.status?.frozenVersions, versions, selected: selected2, now }),
    groupFreezes: groupFreezes(failed2, reported2, selected2, now),
    ...reported2,
    nodesOverLimit: nodesOverLimit(mayWait([...slots.keys()], settings2), limitsOf(unavailable)),
    controlPlane: new ControlPlane(snapshot.nodes, slots.keys()),
    capacity: limitsOf(slots),
    groupOrder: new GroupOrder({ groups: snapshot.groups, selected: selected2, failed: failed2, offeredSince, now }),
    canaries: new CanaryLanes(selected2, { ...snapshot, ...reported2, ...asked }, now),
    now,
    moment
  };
}
function askedOf(snapshot, slots, moment, now) {
  const { managedNodes, allPods } = snapshot;
  const drained = managedNodes.filter((one) => isDrained2(one, allPods.asOf, moment)).map(({ name }) => name);
  return {
    drains: new Drains(snapshot, now),
    checks: new Checks(snapshot.checks, now),
    workloads: new Workloads(allPods, drained, now),
    quorums: new Quorums(snapshot, slots, now)
  };
}
function isUnknown(pair, asked, now) {
  const drain = () => asked.drains.of(pair.node, pair.policy);
  return monitoringOf({ ...pair, ...asked, drain, now }).isUnknown === true;
}
function byNode(facts) {
  const settings2 = /* @__PURE__ */ new Map();
  const slots = /* @__PURE__ */ new Map();
  for (const [one, found] of facts) {
    if (found.settings !== void 0) settings2.set(one.name, found.settings);
    if (found.slot !== void 0) slots.set(one, found.slot);
  }
  return { settings: settings2, slots };
}
function factsOf(managedNode, now) {
  const settings2 = isPair(managedNode) ? settingsFacts({ ...managedNode, policy: requestedPolicy(managedNode, now), now }) : void 0;
  const slot = slotOf(managedNode, now) ?? slotOfSettings(managedNode, settings2) ?? slotOfTaints(managedNode, now);
  return { settings: settings2, slot };
}
function isDrained2({ shadow: shadow2 }, listedFrom, now) {
  if (shadow2 === void 0) return false;
  const state2 = shadow2.state;
  return state2 === "Proving" ? (stateSince(shadow2, now) ?? now.ms) + 1e3 > listedFrom : STATES[state2].evicts;
}
function mayWait(nodes, settings2) {
  return nodes.filter(
    ({ name, shadow: shadow2 }) => shadow2 === void 0 || shadow2.purpose !== "Rollback" && !restoresSettings(shadow2, settings2.get(name))
  );
}
function isOrphaned(managedNode, slots) {
  const { node, shadow: shadow2 } = managedNode;
  if (node === void 0 || !ownedByUs(node) || slots.has(managedNode)) return false;
  return shadow2 === void 0 || !isUnderWay(shadow2);
}
function gateInput(candidate, fleetState, limits) {
  const { policy: fleet, stale, connectivity, clockSkewMs, offeredSince } = fleetState;
  const frozen2 = frozenFor(candidate, fleetState);
  const { checks: checks3, workloads, quorums: quorums2, observation, ownNamespace, now, moment } = fleetState;
  const drain = () => fleetState.drains.of(candidate.node, candidate.policy);
  const asked = { checks: checks3, workloads, quorums: quorums2, ownNamespace, ...observation.gateInput(candidate) };
  const ofFleet = { fleet, stale, connectivity, clockSkewMs, frozen: frozen2, offeredSince, ...asked };
  return { ...candidate, ...ofFleet, ...limits, drain, now, moment };
}
function frozenFor({ group: group2 }, { frozen: frozen2, groupFreezes: ofGroups }) {
  const own2 = group2 && ofGroups.get(group2.name)?.frozen;
  return own2 === void 0 || own2.length === 0 ? frozen2 : [...frozen2, ...own2];
}
var CORDON_COUNTS_MS = 24 * 60 * 6e4;
function hasNode(managedNode) {
  return managedNode.node !== void 0;
}
function limitsBy({ policy, groups }, selected2, stuck, now) {
  const byGroup = Map.groupBy(selected2, ({ group: group2 }) => group2?.name);
  const ofGroups = groups.filter(({ concurrency }) => Object.keys(concurrency).length > 0).map(({ name, concurrency }) => ({ name, concurrency, members: byGroup.get(name)?.map(({ node }) => node) ?? [] }));
  const unavailable = selected2.filter(
    ({ node, cordonedSince = now }) => isDown(node) || isUnavailable(node) && now - cordonedSince < CORDON_COUNTS_MS
  );
  return (slots) => {
    const own2 = ofGroups.map(({ name, concurrency, members: members2 }) => {
      const stuckOnes = stuck.filter((node) => members2.includes(node));
      return [name, new Capacity(concurrency, members2.length, stuckOnes)];
    });
    const limits = new Limits(new Capacity(policy.concurrency, selected2.length, stuck), new Map(own2));
    for (const one of [...slots.keys()].filter(hasNode)) limits.reserve(one, true);
    for (const one of unavailable) if (!slots.has(one)) limits.reserve(one, false);
    return limits;
  };
}
function policyFor(pair, now) {
  return withoutFailed(requestedPolicy(pair, now), pair.shadow, now);
}
function requestedPolicy({ node, shadow: shadow2, policy, group: group2 }, now) {
  const rollback = currentRollback(shadow2, policy, now);
  if (rollback !== void 0 && isManaged(node)) return rollbackPolicy(policy, rollback.previous);
  if (!isSelected(node, policy)) return { ...policy, settings: [] };
  if (group2?.problem === void 0) return policy;
  const known = requestedOf(shadow2);
  const isKept = group2.problem.startsWith("spec.versions");
  return { ...policy, settings: isKept ? known : [...settingsOfVersions(policy.versions), ...ownSettings(known)] };
}

// packages/shared/src/kube/events.ts
function shadowReference({ metadata: { name, namespace = "", uid } }) {
  return { apiVersion: `${GROUP}/${SHADOW_VERSION}`, kind: SHADOW_KIND, name, namespace, uid };
}

// packages/shared/src/api/history.ts
var v22 = __toESM(require("valibot"), 1);
var MAX_UPDATES = 10;
var entry = object2({
  start: time(),
  end: time(),
  from: text(100),
  to: text(100),
  /** An `Outcome` of the controller; of a later release perhaps another one. */
  outcome: text(64),
  code: v22.exactOptional(text(64)),
  /** Which attempt with the version it was, from 1. */
  attempt: count(),
  group: v22.exactOptional(text(63)),
  /** How long it was in each state of the spec, whole seconds. */
  seconds: v22.record(text(64), count())
});
function historyKey(number6) {
  return `${HISTORY_ANNOTATION}-${number6 % MAX_UPDATES}`;
}

// packages/controller/src/plan/history.ts
function isEnd({ spec }, shadow2) {
  return isUnderWay(shadow2) && spec.state === "Idle";
}
function historyAfter(transition2, shadow2) {
  const { count: count2 = 0 } = shadow2.record.history ?? {};
  if (transition2.outcome === "Started") return count2 === 0 ? {} : { history: { count: count2, seconds: {} } };
  if (isEnd(transition2, shadow2)) return { history: { count: (count2 + 1) % INT32, seconds: {} } };
  if (transition2.outcome !== "Advanced") return {};
  return { history: { count: count2, seconds: secondsAfter(transition2.spec, shadow2) } };
}
function pastOf(transition2, shadow2, { from, to, code }) {
  if (!isEnd(transition2, shadow2)) return void 0;
  const { spec, outcome } = transition2;
  const { record: record9, times } = shadow2;
  const end = parseTime(spec.state_transition_timestamp) ?? 0;
  const start = times.startedAt ?? times.stateSince ?? end;
  const update = {
    start: rfc3339(start),
    end: rfc3339(end),
    from,
    to,
    outcome,
    ...code !== "" && { code },
    attempt: Math.min(attempts(shadow2, shadow2.spec.version ?? "") + 1, INT32),
    ...record9.group !== void 0 && { group: record9.group },
    seconds: secondsAfter(spec, shadow2)
  };
  return { key: historyKey(record9.history?.count ?? 0), update };
}
function secondsAfter({ state_transition_timestamp: time2 }, shadow2) {
  const { stateSince: stateSince2 } = shadow2.times;
  const end = parseTime(time2);
  const known = shadow2.record.history?.seconds ?? {};
  if (stateSince2 === void 0 || end === void 0 || end < stateSince2) return { ...known };
  const { state: state2 } = shadow2.spec;
  const seconds = (known[state2] ?? 0) + Math.floor((end - stateSince2) / 1e3);
  return { ...known, [state2]: Math.min(seconds, INT32) };
}

// packages/controller/src/plan/gates/reasons.ts
var MAX_MESSAGE = 500;
var REASONS = {
  UpToDate: { passes: "event" },
  Updating: { passes: "event" },
  WatchStale: { passes: "event", fleetWide: true },
  ConnectivityLost: { passes: "event", fleetWide: true, needsAttention: true },
  ClockSkew: { passes: "event", fleetWide: true, needsAttention: true },
  Paused: { passes: "manual", fleetWide: true, isIntended: true },
  InvalidConfiguration: { passes: "manual", fleetWide: true },
  Frozen: { passes: "manual", fleetWide: true, needsAttention: true, isIntended: true },
  Held: { passes: "time", fleetWide: true, needsAttention: true, isIntended: true },
  WaitingForCanary: { passes: "event", fleetWide: true, withoutTaint: true },
  Soaking: { passes: "time", fleetWide: true, withoutTaint: true },
  WaitingForApproval: { passes: "manual", fleetWide: true, withoutTaint: true, isIntended: true },
  WaitingForNodeGroup: { passes: "event", withoutTaint: true },
  NotSelected: { passes: "manual", withoutTaint: true, isIntended: true },
  Skipped: { passes: "manual", withoutTaint: true, isIntended: true },
  InvalidVersion: { passes: "manual", needsAttention: true },
  VersionDenied: { passes: "manual", withoutTaint: true, isIntended: true },
  MinimumAgeNotReached: { passes: "time", isIntended: true },
  VersionNotOffered: { passes: "manual", needsAttention: true, withoutTaint: true },
  HostSettingsNotApplied: { passes: "manual", needsAttention: true },
  UpdateCheckFailed: { passes: "event", needsAttention: true, withoutTaint: true },
  HostLocked: { passes: "manual", needsAttention: true, withoutTaint: true },
  ChangingSettings: { passes: "time" },
  SettingsConflict: { passes: "manual", withoutTaint: true },
  NodeNotReady: { passes: "event" },
  NodeUnhealthy: { passes: "event" },
  CordonedExternally: { passes: "manual", isIntended: true },
  CleanupPending: { passes: "event" },
  Backoff: { passes: "time" },
  ManualRetryRequired: { passes: "manual", needsAttention: true, withoutTaint: true },
  Aborted: { passes: "manual", withoutTaint: true, isIntended: true },
  SpecWriteRejected: { passes: "manual", needsAttention: true },
  OutsideMaintenanceWindow: { passes: "time", fleetWide: true, isIntended: true },
  Blackout: { passes: "time", fleetWide: true, isIntended: true },
  WindowTooShort: { passes: "manual", needsAttention: true },
  Reverted: { passes: "manual", needsAttention: true, withoutTaint: true },
  CheckNotPassed: { passes: "event", fleetWide: true },
  CheckFailed: { passes: "time" },
  HookFailed: { passes: "time" },
  DrainBlocked: { passes: "event" },
  WorkloadsNotReady: { passes: "event" },
  WaitingForCapacity: { passes: "capacity" },
  MaxUnavailableReached: { passes: "capacity" },
  WaitingForZone: { passes: "capacity" },
  WaitingForControlPlane: { passes: "capacity" },
  QuorumAtRisk: { passes: "event" },
  PodListFailed: { passes: "time" },
  AgentNotConnected: { passes: "event", withoutTaint: true },
  AgentNotResponding: { passes: "event", needsAttention: true },
  DeadlineExceeded: { passes: "event", needsAttention: true }
};
function traitsOf(reason2) {
  return REASONS[reason2];
}
function isReason(text6) {
  return text6 !== void 0 && Object.hasOwn(REASONS, text6);
}
function byFrequency(reasons) {
  return [...reasons].toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
}
function countsByReason(reasons) {
  return byFrequency(reasons).map(([reason2, count2]) => `${count2} ${reason2}`);
}
function specRejected(writeRejection) {
  return { reason: "SpecWriteRejected", message: `The spec could not be written: ${writeRejection}` };
}
function failureReason(kind) {
  return kind === "check" ? "CheckFailed" : "HookFailed";
}
function firstOf(asked, input) {
  for (const one of asked) {
    const answer2 = one(input);
    if (answer2 !== void 0) return answer2;
  }
  return void 0;
}

// packages/controller/src/plan/record-after.ts
function recordAfter(transition2, { shadow: shadow2, node }) {
  return {
    ...shadow2.record,
    isUnreadable: void 0,
    ...started(transition2, shadow2),
    ...endedByConfig2(transition2),
    ...reboot(transition2, shadow2),
    ...bootBefore(transition2, shadow2, node),
    ...beforeDrain(transition2, shadow2),
    ...jobs(transition2),
    ...members(transition2),
    ...otherReport(transition2, shadow2),
    ...historyAfter(transition2, shadow2),
    ...BY_OUTCOME[transition2.outcome]?.(transition2, shadow2, node)
  };
}
var timeOf3 = ({ state_transition_timestamp: time2 }) => time2 ?? "";
function started({ outcome, spec, group: group2, isRequested }, shadow2) {
  const isUnknown2 = isUnderWay(shadow2) && spec.state === "Idle" && !hasStarted(shadow2);
  if (outcome !== "Started" && !isUnknown2) return {};
  return {
    startedAt: timeOf3(spec),
    ...outcome === "Started" && { from: shadow2.status?.current_version },
    group: group2,
    succeeded: void 0,
    podsWaitSince: void 0,
    aborted: void 0,
    updateNow: isRequested === true ? true : void 0,
    ...sameVersion(shadow2.status?.current_version, spec.version) ? beforeReboot(shadow2) : beforeUpdate(spec, shadow2)
  };
}
function beforeReboot(shadow2) {
  return { updated: latestUpdate(shadow2.record), ...hiddenFailure(shadow2) };
}
function hiddenFailure({ record: { failed: failed2 } }) {
  return failed2 === void 0 ? {} : { failed: { ...failed2, isHidden: true } };
}
function otherReport({ spec }, shadow2) {
  const { failed: failed2 } = shadow2.record;
  const isEnd2 = isUnderWay(shadow2) && spec.state === "Idle";
  if (!isEnd2 || failed2 === void 0 || !sameVersion(failed2.version, shadow2.spec.version)) return {};
  const isRetry = (shadow2.times.startedAt ?? 0) > (parseTime(failed2.at) ?? Infinity);
  return isRetry ? {} : hiddenFailure(shadow2);
}
function beforeUpdate({ version: wanted }, shadow2) {
  const { failed: failed2 } = shadow2.record;
  if (failed2 === void 0 || !sameVersion(failed2.version, wanted)) return { ...FORMER, ...hiddenFailure(shadow2) };
  const { isHidden: _, ...shown } = failed2;
  return { ...FORMER, failed: shown };
}
var FORMER = { updated: void 0, readyBefore: void 0, suspects: void 0 };
function endedByConfig2({ outcome, because, spec }) {
  if (outcome === "Started") return { endedByConfigAt: void 0 };
  const isByConfig = outcome === "Deferred" && because !== void 0 && isOfConfig(because.reason);
  return isByConfig || outcome === "Interrupted" || outcome === "Superseded" ? { endedByConfigAt: timeOf3(spec) } : {};
}
function isOfConfig(reason2) {
  return traitsOf(reason2).fleetWide === true && reason2 !== "CheckNotPassed";
}
function reboot({ outcome, spec }, shadow2) {
  if (outcome === "Succeeded" || outcome === "Reverted" || isSettled(shadow2)) return { rebootRequestedAt: void 0 };
  const isRequested = [shadow2.spec, spec].some(
    ({ state: state2 }) => state2 === "RebootedIntoUpdate" || state2 === "MonitoringUpdate"
  );
  return isRequested && shadow2.record.rebootRequestedAt === void 0 ? { rebootRequestedAt: timeOf3(spec) } : {};
}
function bootBefore({ spec }, shadow2, { bootID: bootID2 }) {
  if (spec.state === "Idle") return { bootBefore: void 0 };
  const isRequested = spec.state === "RebootedIntoUpdate" && shadow2.spec.state !== spec.state;
  return isRequested && bootID2 !== "" ? { bootBefore: bootID2 } : {};
}
var MAX_NAMES3 = 50;
function beforeDrain(transition2, { purpose }) {
  const { unreadyBefore: unreadyBefore2, evictedWorkloads, readyBefore, spec } = transition2;
  return {
    ...unreadyBefore2 !== void 0 && { unreadyBefore: firstOf2(unreadyBefore2) },
    ...evictedWorkloads !== void 0 && { evictedWorkloads: firstOf2(evictedWorkloads) },
    ...readyBefore !== void 0 && purpose === "Update" && { readyBefore: readyAt(readyBefore, spec) }
  };
}
function readyAt(ready3, spec) {
  const workloads = firstOf2([...ready3]);
  return workloads && { at: timeOf3(spec), workloads: Object.fromEntries(workloads) };
}
function firstOf2(found) {
  return found.length === 0 ? void 0 : found.slice(0, MAX_NAMES3);
}
function jobs({ jobs: value2 }) {
  return value2 === void 0 ? {} : { jobs: value2 ?? void 0 };
}
function members({ members: value2 }) {
  return value2 === void 0 ? {} : { members: firstOf2(value2) };
}
var cancelled = (transition2, shadow2, node) => ({
  ...oneMore(shadow2),
  ...oneMoreAttempt(shadow2),
  ...failedVersion(transition2, shadow2, node)
});
var BY_OUTCOME = {
  Started: (transition2, shadow2) => ({
    ...transition2.restores !== true && lostSettings(transition2, shadow2),
    ...transition2.isBlocked === true && blockedDrain(shadow2, transition2.spec),
    ...!sameVersion(shadow2.status?.current_version, transition2.spec.version) && endRollback(transition2, shadow2)
  }),
  Failed: (transition2, shadow2, node) => ({
    ...oneMore(shadow2),
    ...usesAttempt(shadow2) && oneMoreAttempt(shadow2),
    ...failedVersion(transition2, shadow2, node)
  }),
  Configured: (transition2, shadow2) => ({
    ...endedRollback(transition2, shadow2),
    ...bootAtGrant(transition2, shadow2),
    ...transition2.proves === true ? { settingsProved: provedNow(shadow2) } : lostSettings(transition2, shadow2)
  }),
  SettingsFailed: (transition2, shadow2) => shadow2.purpose === "Settings" ? failedReboot(transition2, shadow2) : { settingsFailed: { hash: transition2.failedSettings ?? "", at: timeOf3(transition2.spec) } },
  Cancelled: cancelled,
  CheckFailed: cancelled,
  /** The update that follows is not delayed by earlier failures. */
  Reverting: (transition2, shadow2, node) => ({
    unsuccessful: void 0,
    ...oneMoreAttempt(shadow2),
    ...failedVersion(transition2, shadow2, node),
    ...startRollback(transition2, shadow2)
  }),
  Reverted: (transition2, shadow2) => ({
    ...UNTIL_REVERTED,
    ...succeededWith(transition2, shadow2),
    ...doneRollback(shadow2)
  }),
  /** No failure: neither counted, nor delayed. */
  Aborted: ({ spec }, shadow2) => ({ aborted: { version: shadow2.spec.version ?? "", at: timeOf3(spec) } }),
  Withdrawn: (_, shadow2) => ({ withdrawn: withdrawn(shadow2) + 1 }),
  Deferred: (transition2, shadow2) => ({
    ...deferredAfter(transition2, shadow2),
    ...failedJob2(transition2, shadow2),
    ...heldPods(transition2, shadow2)
  }),
  Succeeded: (transition2, shadow2) => ({
    ...succeededWith(transition2, shadow2),
    ...shadow2.purpose === "Settings" ? rebooted(transition2, shadow2) : updated(transition2, shadow2),
    settingsProved: provedNow(shadow2)
  })
};
function lostSettings({ spec }, shadow2) {
  const isGrant = (spec.settings?.allow ?? "None") !== "None";
  return { settingsProved: isGrant ? provedAtGrant(shadow2, requestedOf({ spec })) : provedAtChange(shadow2) };
}
var UNTIL_REVERTED = {
  blockedDrains: void 0,
  unsuccessful: void 0,
  withdrawn: void 0,
  attempts: void 0,
  deferredAfterSeconds: void 0,
  unreadyBefore: void 0,
  evictedWorkloads: void 0,
  members: void 0,
  group: void 0
};
var UNTIL_SUCCESS = { ...UNTIL_REVERTED, failed: void 0 };
function updated(transition2, shadow2) {
  return { ...UNTIL_SUCCESS, settingsRebooted: void 0, ...updateSeconds(transition2, shadow2) };
}
function rebooted({ spec }, shadow2) {
  const isOther = attempts(shadow2, shadow2.spec.version ?? "") === 0;
  const { attempts: counted, unsuccessful: all } = shadow2.record;
  return {
    ...UNTIL_REVERTED,
    ...isOther && counted !== void 0 && { attempts: counted, unsuccessful: all },
    settingsRebooted: { hash: hashOfSettings(requestedOf(shadow2)), at: timeOf3(spec) }
  };
}
function succeededWith({ spec }, shadow2) {
  const isReboot = shadow2.purpose === "Settings";
  return { succeeded: { version: shadow2.spec.version ?? "", at: timeOf3(spec), ...isReboot && { isReboot } } };
}
function startRollback({ spec, previous = "" }, shadow2) {
  return { rollback: { failed: shadow2.spec.version ?? "", previous, since: timeOf3(spec), isDone: false } };
}
function endRollback({ spec }, { record: { rollback } }) {
  const isToPrevious = rollback?.isDone === false && sameVersion(rollback.previous, spec.version);
  return isToPrevious ? {} : { rollback: void 0 };
}
function doneRollback({ record: { rollback } }) {
  return { rollback: rollback && { ...rollback, isDone: true } };
}
function bootAtGrant({ spec }, shadow2) {
  const isGrant = (spec.settings?.allow ?? "None") !== "None";
  return { settingsBoot: isGrant ? shadow2.status?.bootID : void 0 };
}
function endedRollback({ spec }, shadow2) {
  const { failed: failed2, previous, isDone = true } = shadow2.record.rollback ?? {};
  if (isDone || lockOf({ spec }) === previous) return {};
  const runsFailed = sameVersion(shadow2.status?.current_version, failed2);
  return runsFailed ? { rollback: void 0 } : doneRollback(shadow2);
}
function failedJob2({ because }, shadow2) {
  return because?.reason === "CheckFailed" || because?.reason === "HookFailed" ? oneMore(shadow2) : {};
}
function heldPods({ because, spec }, shadow2) {
  const isHeld = because?.reason === "DrainBlocked" && shadow2.spec.state === "RebootedIntoUpdate";
  return isHeld && !isTrying(shadow2) ? blockedDrain(shadow2, spec) : {};
}
function blockedDrain(shadow2, spec) {
  return { blockedDrains: oneMoreBlockedDrain(shadow2, timeOf3(spec)) };
}
function oneMore(shadow2) {
  return { unsuccessful: unsuccessful(shadow2) + 1 };
}
function oneMoreAttempt(shadow2) {
  const version3 = shadow2.spec.version ?? "";
  return { attempts: { version: version3, count: attempts(shadow2, version3) + 1 } };
}
function failedVersion(transition2, shadow2, node) {
  const { outcome, because, spec } = transition2;
  const code = outcome === "Failed" ? reportedFailure(shadow2, node) : failureAtEnd(shadow2, node, because?.reason);
  const purpose = shadow2.purpose;
  if (purpose === "Settings") return code === void 0 && !hasRefused(shadow2) ? {} : failedReboot(transition2, shadow2);
  if (code === void 0 || purpose === "Rollback") return {};
  return { failed: { version: shadow2.spec.version ?? "", code, at: timeOf3(spec) } };
}
function hasRefused({ status }) {
  return status?.current_state === "ErrorReset" && status.lastOperation?.errorCode === "SettingsFailed";
}
function failedReboot({ spec, restores = false }, shadow2) {
  const settings2 = requestedOf(shadow2);
  if (ownSettings(settings2).length === 0 && !restores) return {};
  const hash2 = hashOfSettings(settings2);
  const isRestored2 = restores || hash2 === hashOf(shadow2.record.settingsProved ?? []);
  const settingsRebooted = { hash: hash2, at: timeOf3(spec) };
  return { settingsRebooted, ...!isRestored2 && { settingsFailed: settingsRebooted } };
}
function usesAttempt({ status }) {
  const code = status?.lastOperation?.errorCode;
  return code === void 0 || !isErrorCode(code) || ERROR_CODES[code] !== "RetrySoon";
}
function updateSeconds({ spec, wasSuspended = false }, shadow2) {
  const isTypical = shadow2.progressing?.reason !== "DeadlineExceeded" && !wasSuspended;
  const seconds = isTypical ? secondsSoFar(shadow2, spec) : void 0;
  return seconds === void 0 ? {} : { updateSeconds: seconds };
}
function deferredAfter({ spec, because, wasSuspended = false }, shadow2) {
  const seconds = wasSuspended ? void 0 : secondsSoFar(shadow2, spec);
  const closed2 = because?.reason === "OutsideMaintenanceWindow" || because?.reason === "WindowTooShort";
  return closed2 && seconds !== void 0 ? { deferredAfterSeconds: seconds } : {};
}
function secondsSoFar(shadow2, spec) {
  const start = shadow2.times.startedAt;
  const end = parseTime(spec.state_transition_timestamp);
  return start === void 0 || end === void 0 || end < start ? void 0 : Math.ceil((end - start) / 1e3);
}

// packages/controller/src/plan/spec-change.ts
var WARNINGS = /* @__PURE__ */ new Set([
  "UpdateFailed",
  "SettingsFailed",
  "DeadlineExceeded",
  "HookFailed",
  "HostSettingsKept",
  "AbortRefused",
  "UpdateNowRefused",
  "NodeLost",
  "OutOfService",
  "Suspect"
]);
function eventOn({ metadata: { name, uid } }, shadow2, event2) {
  const about = { apiVersion: "v1", kind: "Node", name, uid };
  return { ...event2, warning: WARNINGS.has(event2.reason), about, related: shadow2 && shadowReference(shadow2) };
}
function specChange(transition2, { node, shadow: shadow2 }) {
  const { uid, generation = 0 } = shadow2.metadata;
  const text6 = EVENTS[transition2.outcome](transition2, shadow2);
  const event2 = eventOn(node, shadow2, { ...text6, key: `${uid}/${generation}` });
  const { from, to, code } = transitionOf({ ...transition2, shadow: shadow2, node });
  const past = pastOf(transition2, shadow2, { from, to, code });
  return { ...transition2, shadow: shadow2, node, record: recordAfter(transition2, { shadow: shadow2, node }), event: event2, past };
}
var FOR_SETTINGS = "for the settings of its group";
function forSettings(before) {
  const keys4 = keysOf3(pendingOf(before).filter((one) => one.class === "NeedsReboot"));
  return keys4.length === 0 ? FOR_SETTINGS : `${FOR_SETTINGS}: ${namesOf(keys4)}`;
}
var EVENTS = {
  Started: ({ spec, unhealthyPods: unhealthyPods2, isRequested = false }, before) => {
    const asked = isRequested ? `, as the annotation ${UPDATE_NOW_ANNOTATION} asks` : "";
    const even = unhealthyPods2 === void 0 ? "" : `, although ${unhealthyPods2}: it has waited for them long enough`;
    return {
      reason: "UpdateStarted",
      message: sameVersion(spec.version, before.status?.current_version) ? `Rebooting ${spec.version ?? "?"} ${forSettings(before)}${even}` : `Updating from ${before.status?.current_version ?? "?"} to ${spec.version ?? "?"}${asked}${even}`
    };
  },
  Advanced: ({ spec }, before) => ({
    reason: "UpdateAdvanced",
    message: `${before.spec.state} is complete; the next step to ${spec.version ?? "?"} is ${spec.state}`
  }),
  Configured: (transition2, before) => ({
    reason: "HostSettingsChanged",
    message: describeSettings(transition2, before),
    isMinor: true
  }),
  Repaired: (_, { spec }) => ({
    reason: "SpecRepaired",
    message: `The spec of the shadow (${spec.state}) was not written by this operator, and is Idle again`
  }),
  Released: () => ({
    reason: "Released",
    message: "The node is no longer managed: the update ends before its reboot"
  }),
  Cancelled: ({ because }) => ({
    reason: "DeadlineExceeded",
    message: because?.message ?? "A step of the update had no result within its limit"
  }),
  CheckFailed: ({ because }, { spec }) => ({
    reason: "UpdateFailed",
    message: `The update to ${spec.version ?? "?"} failed. ${because?.message ?? ""}`
  }),
  Deferred: ({ because }) => {
    const why = because?.message ?? "The node cannot be drained now; its condition Progressing says why";
    return { reason: "UpdateDeferred", message: `The staged update is deferred and starts again later. ${why}` };
  },
  Interrupted: () => ({
    reason: "UpdateInterrupted",
    message: 'BrupopConfig "cluster" interrupts updates: this one is undone, and starts again after the pause'
  }),
  Aborted: (_, { spec }) => ({
    reason: "UpdateAborted",
    message: `A user ended the update to ${spec.version ?? "?"} with the annotation ${ABORT_ANNOTATION}: it is undone, and starts again when a user asks for it with the annotation ${RETRY_ANNOTATION}`
  }),
  Superseded: (_, before) => ({
    reason: "UpdateSuperseded",
    message: before.purpose === "Settings" ? `The configuration no longer needs this reboot ${FOR_SETTINGS}: it is cancelled` : `The configuration no longer allows ${before.spec.version ?? "?"}: this update is undone`
  }),
  Withdrawn: (_, { spec, status }) => ({
    reason: "UpdateSuperseded",
    message: `The host no longer offers ${spec.version ?? "?"}, and offers ${otherVersion(status)}: the update is cancelled, which is not a failure`
  }),
  SettingsFailed: ({ because }, before) => ({
    reason: "SettingsFailed",
    message: `The settings of its group failed, and the former ones are set again: ${because?.message ?? "?"} (${namesOf(keysOf3(ownSettings(requestedOf(before))))})`
  }),
  Reverting: ({ previous = "?", because }, { spec }) => ({
    reason: "UpdateFailed",
    message: `Not healthy on ${spec.version ?? "?"}: ${because?.message ?? "?"}. The node goes back to ${previous}`
  }),
  Reverted: (_, { spec }) => ({
    reason: "Reverted",
    message: `The node runs ${spec.version ?? "?"} again, and is healthy`
  }),
  Succeeded: (_, before) => ({
    reason: "UpdateSucceeded",
    message: before.purpose === "Settings" ? `Rebooted ${FOR_SETTINGS}` : `Updated to ${before.status?.current_version ?? "?"}`
  }),
  Failed: (_, before) => {
    const { errorCode = "no error code", message = "no message" } = before.status?.lastOperation ?? {};
    const what = before.purpose === "Settings" ? `The reboot ${FOR_SETTINGS}` : `The update to ${before.spec.version ?? "?"}`;
    return { reason: "UpdateFailed", message: `${what} failed: ${errorCode}: ${message}` };
  }
};
function describeSettings({ spec }, before) {
  const [old, next] = [requestedOf(before), requestedOf({ spec })];
  const other = [
    ...next.filter((one) => !sameSettings([one], same(old, one))),
    ...old.filter((one) => same(next, one).length === 0)
  ];
  if (other.length > 0) return `The host gets other settings: ${namesOf(keysOf3(other))}`;
  const allow = spec.settings?.allow ?? "None";
  if (allow === "None") return "The settings of its group are proved, and the host may change nothing more";
  const granted = pendingOf(before).filter((one) => covers(allow, one.class));
  return `The host may now set the settings of class ${allow}: ${namesOf(keysOf3(granted))}`;
}
function same(all, { key: key2 }) {
  return all.filter((one) => one.key === key2);
}
function keysOf3(all) {
  return all.map(({ key: key2 }) => key2).toSorted();
}
function pendingOf({ status }) {
  return status?.settings?.pending ?? [];
}
function otherVersion(status) {
  const { target_version: offered = "", current_version: running } = status ?? {};
  return offered === "" || sameVersion(offered, running) ? "no other version" : offered;
}
function transitionOf(change) {
  const { shadow: shadow2, spec, outcome } = change;
  const { version: version3 } = outcome === "Started" ? spec : shadow2.spec;
  const from = named2(startedFrom(change));
  return { from, to: named2(version3 ?? ""), state: spec.state, outcome, code: CODES3[outcome]?.(change) ?? "" };
}
function startedFrom({ shadow: shadow2, outcome }) {
  const { record: record9, status } = shadow2;
  if (outcome === "Started") return status?.current_version ?? "";
  return isUnderWay(shadow2) && hasStarted(shadow2) ? record9.from ?? "" : "";
}
function named2(version3) {
  return isVersion(version3) ? releaseOf(version3) : "";
}
var CODES3 = {
  Failed: ({ shadow: shadow2 }) => reportedCode(shadow2),
  Cancelled: missed,
  Reverting: missed,
  CheckFailed: missed,
  Deferred: ({ because }) => because?.reason ?? "DrainBlocked",
  Withdrawn: () => "VersionNotOffered"
};
function missed({ shadow: shadow2, node, because }) {
  return failureAtEnd(shadow2, node, because?.reason) ?? "DeadlineExceeded";
}
function reportedCode({ status }) {
  const { errorCode = "" } = status?.lastOperation ?? {};
  return errorCode === "" || isErrorCode(errorCode) ? errorCode : "other";
}

// packages/controller/src/plan/look-ups.ts
function lookUpsOf({ decisions, fleetState }, others, { pods }) {
  const { drains, workloads, quorums: quorums2, observation, now } = fleetState;
  const wanted = decisions.flatMap(({ lookUp, managedNode: { node } }) => lookUp === true ? node ?? [] : []);
  const seenAt = ({ metadata: { name } }) => pods.get(name)?.seenAt ?? 0;
  const first = [.../* @__PURE__ */ new Set([...wanted, ...others])].toSorted((a, b) => seenAt(a) - seenAt(b));
  const due = [.../* @__PURE__ */ new Set([...first, ...observation.lookUps])].filter(
    ({ metadata: { name } }) => (pods.get(name)?.retryAt ?? 0) <= now
  );
  const used = workloads.isDue ? "list" : "keep";
  const unused = workloads.isKept ? "keep" : "forget";
  return {
    lookUps: due.slice(0, MAX_LOOK_UPS),
    needsPodsOf: drains.requested,
    observes: observation.names,
    allPods: workloads.isRequested ? used : unused,
    members: quorums2.wanted,
    quorums: quorums2.counts
  };
}
function timesOf2({ decisions, fleetState }, { watchLags, pods }) {
  const { slots, policy, groups, canaries, checks: checks3, workloads, quorums: quorums2, observation, now } = fleetState;
  return [
    ...decisions.flatMap(({ times, blocked: blocked3 }) => [...times, blocked3?.retryAt]),
    ...[...slots.values()].map(({ deadline }) => deadline),
    ...[...pods.values()].map(({ retryAt }) => retryAt),
    ...checks3.times,
    ...workloads.times,
    ...quorums2.times,
    ...canaries.times,
    ...observation.times,
    ...[{ policy }, ...groups].flatMap((one) => one.policy.resumes),
    ...staleCheckTimes(watchLags, now)
  ];
}
function checkWork({ decisions, fleetState }) {
  const { checks: checks3 } = fleetState;
  const current = decisions.flatMap(({ managedNode: { shadow: shadow2, policy } }) => {
    const hasLeft = shadow2?.record.jobs !== void 0 && hasHooksLeft({ shadow: shadow2, policy });
    return shadow2 !== void 0 && (isUnderWay(shadow2) || hasLeft) ? shadow2 : [];
  });
  return {
    evaluate: checks3.due,
    read: decisions.flatMap(({ jobs: jobs2 }) => jobs2?.read ?? []),
    nodes: decisions.flatMap(nodeJobs),
    attempts: new Set(current.map(currentAttempt))
  };
}
function nodeJobs({ managedNode, change, jobs: jobs2 }) {
  if (jobs2 === void 0 || change !== void 0 || !isPair(managedNode)) return [];
  const { shadow: shadow2, node } = managedNode;
  const { start, create } = jobs2;
  const records = recordsNow(jobs2, shadow2);
  const isSame5 = JSON.stringify(records) === JSON.stringify(written(recordsOf(shadow2)));
  if (isSame5 && create.length === 0) return [];
  return [{ shadow: shadow2, node, records: isSame5 ? void 0 : records, event: hookEvent(jobs2, managedNode), start, create }];
}
function recordsNow({ isDone, records, start }, shadow2) {
  if (isDone && !isUnderWay(shadow2)) return written(withoutHooks(records));
  return written(new Map([...records, ...start.map(({ key: key2 }) => [key2, "Started"])]));
}
function hookEvent({ failed: failed2 }, { node, shadow: shadow2 }) {
  if (failed2 === void 0 || isUnderWay(shadow2)) return void 0;
  const { run, message } = failed2;
  return eventOn(node, shadow2, { reason: "HookFailed", message, key: run.jobName });
}

// packages/controller/src/plan/condition.ts
var MINUTE_MS = 6e4;
function upToDate(version3, isPinned, kept = []) {
  const which = isPinned ? "the pinned version" : "the version that its host is offered";
  const what = `Its host keeps settings that are no longer requested, since their former value is unset or unknown: ${namesOf(kept)}`;
  const next = "Set them on the host; status.settings.cannotUnset lists all";
  return progressing("False", "UpToDate", `Runs ${version3}, ${which}${kept.length === 0 ? "" : `. ${what}. ${next}`}`);
}
function hostLocked(lock) {
  const what = `settings.updates.version-lock of its host is ${lock}, which no pin has set, so the node does not follow the fleet`;
  const next = "Set it to latest on the host (apiclient set updates.version-lock=latest), or pin the node to any version and end the pin. To leave the node on this version, pin it with spec.versions.pin of a BottlerocketNodeGroup";
  return progressing("False", "HostLocked", `${what}. ${next}`);
}
function unchecked(version3, { errorCode, message = "" }) {
  const what = `Runs ${version3}; its host cannot check for updates (${errorCode ?? "no error code"})`;
  return progressing("False", "UpdateCheckFailed", `${what}: ${message.slice(0, MAX_MESSAGE)}`);
}
function updating(version3, podsProblem) {
  if (podsProblem !== void 0) {
    return stopped(`${version3} is staged; the pods on the node cannot be listed: ${podsProblem}`, "PodListFailed");
  }
  return progressing("True", "Updating", `Updating to ${version3}; status.lastOperation names the step`);
}
function blockedDrain2(found, block2) {
  if (block2 === void 0) return found;
  const { pod = "?", reason: reason2 = "?" } = block2;
  return stopped(`${found.message}. Its drain waits for the pod ${pod} (${reason2}); status.drain lists all`, reason2);
}
function stopped(message, waitsFor) {
  return { ...progressing("True", "Updating", message), waitingFor: printable(waitsFor) };
}
function notDrained({ reason: reason2, message }) {
  return stopped(`The node is staged, and not drained yet: ${message}`, reason2);
}
function goingBack(previous, failed2) {
  return progressing("True", "Updating", `Going back to ${previous}: the node was not healthy on ${failed2}`);
}
function rebooting(podsProblem) {
  const detail = podsProblem === void 0 ? "status.lastOperation names the step" : `its pods cannot be listed: ${podsProblem}`;
  const message = `Rebooting for the settings of its group; ${detail}`;
  return podsProblem === void 0 ? progressing("True", "Updating", message) : stopped(message, "PodListFailed");
}
function staged(version3, waitsFor) {
  return stopped(`${version3} is staged; before the drain, ${waitsFor}`, "Job");
}
function runsHooks(waitsFor) {
  return stopped(`The update has ended; after it, ${waitsFor}`, "Job");
}
function monitored(version3, problem) {
  if (problem === void 0) return updating(version3);
  return stopped(`Runs ${version3}, and is not healthy yet: ${problem}`, "NodeUnhealthy");
}
function checkFailed(version3) {
  const what = `The Job of a check failed on ${version3}, which the node runs; the Event UpdateFailed on the Node names it`;
  const how = 'The node holds its update slot until it is offered another version, or until spec.rollout.resume of BrupopConfig "cluster" accepts it';
  return progressing("False", "CheckFailed", `${what}. ${how}`);
}
function notConfigured(message) {
  return progressing(
    "False",
    "HostSettingsNotApplied",
    `The host does not have the settings that are requested: ${message}`
  );
}
function waiting2({ reason: reason2, message, retryAt }) {
  const isTimed = retryAt !== void 0 && traitsOf(reason2).passes === "time";
  const until = isTimed ? ` until ${rfc3339(retryAt)}` : "";
  return { ...progressing("False", reason2, message), waitingFor: `${reason2}${until}` };
}
function overdue(input, isCancelled) {
  const { shadow: shadow2, policy } = input;
  const { state: state2, version: version3 } = shadow2.spec;
  const said = quoted2(shadow2.status?.lastOperation);
  const minutes2 = Math.round(limitMs(shadow2.spec, policy) / MINUTE_MS);
  if (state2 === "MonitoringUpdate") return progressing("False", "DeadlineExceeded", notHealthyInTime(input));
  if (isCancelled) {
    const step = state2 === "StagedAndPerformedUpdate" ? "Staging" : "The drain for";
    const message2 = `${step} ${version3} had no result within ${minutes2} minutes and was cancelled; look at the agent's log${said}`;
    return progressing("False", "DeadlineExceeded", message2);
  }
  const message = `The drain and reboot into ${version3} had no result within ${minutes2} minutes; look at the host and the agent's log. The node holds its update slot, and continues when it comes back${said}`;
  return progressing("False", "DeadlineExceeded", message);
}
function notHealthyInTime(input) {
  const { shadow: shadow2 } = input;
  const version3 = shadow2.spec.version ?? "";
  const { problem, isUnknown: isUnknown2 } = monitoringOf(input);
  if (problem !== void 0 && isUnknown2 === true)
    return `It is not known whether the node is healthy after its update to ${version3}: ${problem}. It holds its update slot until that is known`;
  if (problem !== void 0) return `The node is not healthy after its update to ${version3}: ${problem}`;
  const late = `The node was not healthy in time after its update to ${version3}`;
  return hasReached(shadow2) ? `${late}. It is healthy now, and the update succeeds after spec.monitoring.healthyFor` : `${late}, and its agent has not confirmed the step`;
}
var OUTDATED_TOKEN = "If the Node was deleted and created again while the pod ran, its token is for the former Node: delete the pod";
function agentNotConnected(namespace) {
  const problem = "No agent has reported for this node yet";
  const command = `kubectl get pods -n ${namespace} -o wide`;
  return progressing(
    "False",
    "AgentNotConnected",
    `${problem}; check the agent's pod on the node (${command}). ${OUTDATED_TOKEN}`
  );
}
function agentNotResponding(last) {
  const problem = `The agent does not confirm the spec; check whether its pod runs on the node. ${OUTDATED_TOKEN}`;
  return progressing("False", "AgentNotResponding", `${problem}${quoted2(last)}`);
}
function quoted2(last) {
  const { state: state2, message = "" } = last ?? {};
  const isCurrent = state2 === "Processing" || message.startsWith(RESTORE_ERROR);
  return message === "" || !isCurrent ? "" : `. The agent's latest message: ${message.slice(0, MAX_MESSAGE)}`;
}
function progressing(status, reason2, message) {
  return {
    status,
    reason: reason2,
    message: printable(message),
    waitingFor: reason2 === "UpToDate" || reason2 === "Updating" ? "" : reason2
  };
}
function transitionTime(before, status, now) {
  return before?.status === status ? before.lastTransitionTime : rfc3339(now);
}
var CHANGING = {
  reason: "ChangingSettings",
  message: "Other settings of its host are being proved; see status.settings of its BottlerocketShadow"
};
function whyNotInForce(facts) {
  if (facts === void 0 || isComplete(facts) || facts.state === "requested") return void 0;
  if (isChanging(facts)) return CHANGING;
  const [reason2, message] = problemOf4(facts);
  return { reason: reason2, message };
}
function problemOf4(facts) {
  const { state: state2, isLate: isLate2, conflicts } = facts;
  const pending2 = keysOf4(facts.pending);
  const refused = facts.pending.find((one) => one.class === "Refused");
  if (state2 === "failed") return ["HostSettingsNotApplied", FAILED];
  if (isLate2 === true) return ["HostSettingsNotApplied", state2 === "changing" ? NOT_RESTORED : NOT_READY];
  if (refused !== void 0)
    return [
      "HostSettingsNotApplied",
      `${refused.key} cannot be set, so no setting of its group is set: ${refused.reason}`
    ];
  if (conflicts.length > 0)
    return ["SettingsConflict", `A user has set other values on its host: ${named3(conflicts)}; ${RESOLVE}`];
  if (facts.isRebooted && allowedAtReboot(facts) === "NeedsReboot")
    return [
      "HostSettingsNotApplied",
      `The node was rebooted for settings that its host still reports as pending: ${pending2}`
    ];
  return ["ChangingSettings", `Its host has not set ${pending2 === "" ? "its settings" : pending2} yet; ${WAITS2}`];
}
var FAILED = "The settings of its group failed, and the former ones are requested of its host again; status.settings of its BottlerocketShadow has what is still pending, and an Event SettingsFailed on the Node has the cause. Change spec.settings of the group, or set spec.rollout.resume of the BrupopConfig to the current time to try again";
var NOT_RESTORED = `Its host has not restored the former values within ${CHANGE_LIMIT}, and its agent keeps retrying; see status.settings of its BottlerocketShadow, and the log of the agent`;
var NOT_READY = `Its settings have changed, and the Node is not Ready ${CHANGE_LIMIT} later`;
var RESOLVE = "remove them there, or set spec.settingsConflicts of the group to Force";
var WAITS2 = "the condition SettingsApplied of its BottlerocketNodeGroup says what they wait for";
var MAX_KEYS2 = 5;
function keysOf4(pending2) {
  return named3(pending2.map(({ key: key2 }) => key2));
}
function named3(keys4) {
  const more = keys4.length > MAX_KEYS2 ? [`${keys4.length - MAX_KEYS2} more`] : [];
  return [...keys4.slice(0, MAX_KEYS2), ...more].join(", ");
}

// packages/controller/src/plan/gates/retry.ts
var SOON = { part: 1 / 5, longestMs: 30 * 6e4 };
var backoff = (input) => {
  const { shadow: shadow2, status, version: version3 } = input;
  if (isRetryRequested(shadow2, version3)) return void 0;
  if (shadow2.record.isUnreadable === true) return unknownPast(input);
  if (failures(shadow2) === 0) return neverAgain(input) ?? undone(input);
  const recovery2 = recoveryOf(status);
  const forGood = blocked2(input, recovery2) ?? neverAgain(input);
  if (forGood !== void 0 || !isRetried(recovery2) && isFirst(input)) return forGood;
  return retried(input, recovery2);
};
function neverAgain({ shadow: shadow2, version: version3 }) {
  const { failed: failed2 } = shadow2.record;
  if (failed2?.isHidden !== true || !sameVersion(failed2.version, version3)) return void 0;
  if (!isErrorCode(failed2.code) || ERROR_CODES[failed2.code] !== "NeverThisVersion") return void 0;
  const found = `The node failed with ${version3} (${failed2.code}, at ${failed2.at}), and does not try it again by itself`;
  return { reason: "ManualRetryRequired", message: `${found}. ${howToRetry(shadow2, version3)}` };
}
function unknownPast({ shadow: shadow2, version: version3 }) {
  const found = `The annotation ${RECORD_ANNOTATION} of the BottlerocketShadow cannot be read, so earlier failures are unknown`;
  return { reason: "ManualRetryRequired", message: `${found}. ${howToRetry(shadow2, version3)}` };
}
var notRolledBack = ({ name, shadow: shadow2, version: version3, policy, moment }) => {
  const rollback = shadow2.rollback;
  if (rollback === void 0 || !sameVersion(rollback.failed, version3)) return void 0;
  if (isAccepted(rollback.since, policy, moment) || isRetryRequested(shadow2, version3)) return void 0;
  const code = recordedFailure(name, shadow2)?.code ?? "NotHealthy";
  const found = `The node failed with ${version3} (${code}, at ${rfc3339(rollback.since)}), and went back to ${rollback.previous}`;
  return { reason: "Reverted", message: `${found}. ${howToRetry(shadow2, version3)}` };
};
var notAborted = ({ shadow: shadow2, version: version3 }) => {
  const { aborted } = shadow2.record;
  if (!sameVersion(aborted?.version, version3) || isRetryRequested(shadow2, version3)) return void 0;
  const found = `A user ended the update to ${version3} with the annotation ${ABORT_ANNOTATION} at ${aborted?.at ?? "?"}`;
  return { reason: "Aborted", message: `${found}. ${howToRetry(shadow2, version3)}` };
};
function retried(input, recovery2) {
  const { shadow: shadow2, version: version3 } = input;
  const { retry } = input.policy;
  if (recovery2 !== "RetrySoon" && attempts(shadow2, version3) >= retry.attempts) {
    return failedForGood(input, `spec.retry.attempts allows ${retry.attempts} attempts with one version`);
  }
  return delayed(input, recovery2 === "RetrySoon" ? soon(retry) : retry);
}
function undone({ shadow: shadow2, status, policy: { retry }, now }) {
  const { version: version3, at: at2 } = shadow2.updated ?? {};
  if (version3 === void 0 || at2 === void 0 || sameVersion(status.current_version, version3)) return void 0;
  const retryAt = at2 + retry.backoffMs;
  if (now >= retryAt || at2 > now) return void 0;
  const what = `The update to ${version3} succeeded, and the host runs ${status.current_version} again`;
  return { reason: "Backoff", message: `${what}; retried after ${rfc3339(retryAt)}`, retryAt };
}
function isRetried(recovery2) {
  return recovery2 !== "NeverThisVersion" && recovery2 !== "Manual";
}
function soon({ backoffMs, maxBackoffMs }) {
  return { backoffMs: backoffMs * SOON.part, maxBackoffMs: Math.min(maxBackoffMs, SOON.longestMs) };
}
function recoveryOf({ crash_count, lastOperation: lastOperation3 }) {
  const isReported2 = crash_count > 0 && lastOperation3?.state === "Failed";
  const code = isReported2 ? lastOperation3.errorCode : void 0;
  if (code === void 0) return "RetryAfterBackoff";
  return isErrorCode(code) ? ERROR_CODES[code] : "Manual";
}
function blocked2(candidate, recovery2) {
  if (isRetried(recovery2)) return void 0;
  const { lastOperation: lastOperation3 } = candidate.status;
  if (lastOperation3 === void 0 || !sameVersion(lastOperation3.version, candidate.version)) return void 0;
  if (recovery2 === "Manual" && hasBootedSince(candidate, lastOperation3)) return void 0;
  return failedForGood(candidate, "it is not retried automatically");
}
function isFirst({ shadow: shadow2, version: version3 }) {
  return failures(shadow2) <= 1 && attempts(shadow2, version3) === 0;
}
function hasBootedSince({ status }, operation2) {
  return operation2.operation !== "Reboot" && status.bootID !== "" && status.bootID !== operation2.bootID;
}
function delayed(input, { backoffMs, maxBackoffMs }) {
  const { shadow: shadow2, now, moment } = input;
  const failedAt2 = failureTime(input, moment);
  if (failedAt2 === void 0) return failedForGood(input, "the time of the failure is unknown");
  const retryAt = failedAt2 + delayAfter(failures(shadow2), { baseMs: backoffMs, capMs: maxBackoffMs });
  if (now >= retryAt) return void 0;
  const job3 = failedJob({ ...input, now: input.moment });
  const reason2 = job3 === void 0 ? "Backoff" : failureReason(job3.run.kind);
  return { reason: reason2, message: `${job3?.message ?? whatFailed(input)}; retried after ${rfc3339(retryAt)}`, retryAt };
}
function failureTime({ shadow: { times } }, now) {
  return latestTime([times.failedAt, times.stateSince], now);
}
function failedForGood(candidate, why) {
  const message = `${whatFailed(candidate)}; ${why}. ${howToRetry(candidate.shadow, candidate.version)}`;
  return { reason: "ManualRetryRequired", message };
}
function isRetryRequested({ metadata: { annotations = {} } }, version3) {
  return sameVersion(annotations[RETRY_ANNOTATION], version3);
}
function howToRetry({ metadata: { name, namespace } }, version3) {
  return `To retry: kubectl annotate brs ${name} -n ${namespace} --overwrite ${RETRY_ANNOTATION}=${version3}`;
}
function whatFailed({ shadow: shadow2, status: { crash_count, lastOperation: lastOperation3 } }) {
  const count2 = failures(shadow2);
  const times = count2 === 1 ? "The latest attempt" : `${count2} attempts in a row`;
  if (lastOperation3?.state !== "Failed") return `${times} ${crash_count > 0 ? "failed" : "did not succeed"}`;
  const { errorCode = "no error code", version: version3, operation: operation2, message = "" } = lastOperation3;
  const said = message === "" ? "" : ` (${message.slice(0, MAX_MESSAGE)})`;
  return `${times} failed, at ${operation2} of ${version3}: ${errorCode}${said}`;
}

// packages/controller/src/plan/gates/node.ts
var selected = ({ node, policy }) => isSelected(node, policy) ? void 0 : NOT_SELECTED;
var NOT_SELECTED = {
  reason: "NotSelected",
  message: 'spec.nodeSelector of BrupopConfig "cluster" does not select this node'
};
var notSkipped = ({ node }) => {
  const value2 = skippedBy(node);
  if (value2 === void 0) return void 0;
  return { reason: "Skipped", message: `The Node has the annotation ${SKIP_ANNOTATION}=${shorten(value2, 100)}` };
};
var allowedVersion = (input) => denied(input) ?? tooYoung(input);
function denied({ version: version3, policy: { versions }, group: group2 }) {
  if (!versions.deny.some((one) => sameVersion(one, version3))) return void 0;
  const orGroup = group2 === void 0 ? "" : ` or of ${NODE_GROUP_KIND} "${group2.name}"`;
  return {
    reason: "VersionDenied",
    message: `spec.versions.deny of BrupopConfig "cluster"${orGroup} names ${version3}`
  };
}
function tooYoung({ version: version3, policy: { versions }, isReboot, offeredSince, now }) {
  const { pin, minimumAgeMs } = versions;
  if (isReboot || pin !== void 0 || minimumAgeMs === 0) return void 0;
  const since = offeredSince(version3);
  if (since === void 0) return notConfirmed(version3);
  if (since > now + CLOCK_TOLERANCE_MS) return fromTheFuture(version3, since);
  const retryAt = since + minimumAgeMs;
  if (now >= retryAt) return void 0;
  const message = `${version3} has not been available for as long as spec.versions.minimumAge requires; available long enough at ${rfc3339(retryAt)}`;
  return { reason: "MinimumAgeNotReached", message, retryAt };
}
function notConfirmed(version3) {
  const message = `Fewer than two selected nodes run ${version3} or are offered it, so spec.versions.minimumAge does not start yet`;
  return { reason: "MinimumAgeNotReached", message };
}
function fromTheFuture(version3, since) {
  const message = `status.versions of BrupopConfig "cluster" says that ${version3} was first available at ${rfc3339(since)}, which is in the future: check the clock of the controller; if that is right, correct the time with kubectl edit brc cluster --subresource status`;
  return { reason: "MinimumAgeNotReached", message };
}
var offeredVersion = (input) => {
  const { version: version3, status, isReboot } = input;
  if (isReboot || sameVersion(status.target_version, version3)) return void 0;
  return { reason: "VersionNotOffered", message: whyNotOffered(input) };
};
function whyNotOffered({ version: version3, status: { settings: settings2 }, isRollback }) {
  const trouble = settings2?.message;
  if (isRollback) return notOfferedForRollback(version3, trouble);
  if (trouble !== void 0) return `The host does not offer the pinned version ${version3}: ${trouble}`;
  return `The host does not offer the pinned version ${version3}: its repository does not have it, the wave of the host has not come (spec.versions.ignoreWaves), or its agent is of a release that does not set the lock`;
}
function notOfferedForRollback(version3, trouble = "its repository may no longer have it") {
  return `The node is to go back to ${version3} (spec.rollout.rollback), which its host does not offer: ${trouble}. Publish it, or set spec.rollout.resume to the current time to leave the node on the version that it runs`;
}
var validVersion = ({ status, version: version3 }) => {
  const unreadable = [status.current_version, version3].find((version4) => !isVersion(version4));
  if (unreadable === void 0) return void 0;
  const message = `The agent reports "${unreadable}" where a version such as 1.20.0 was expected`;
  return { reason: "InvalidVersion", message };
};
var nodeReady = (input) => {
  const { node } = input;
  return agentCurrent(input) ?? (node.ready ? void 0 : notReady("The Node is not Ready"));
};
var agentCurrent = ({ node, status }) => {
  if (isBeingRemoved(node))
    return notReady("The Node is being deleted, or has a taint that says that its machine is about to be removed");
  const isCurrent = node.bootID === "" || status.bootID === "" || node.bootID === status.bootID;
  return isCurrent ? void 0 : notReady("The host has booted since its agent last reported");
};
function notReady(message) {
  return { reason: "NodeNotReady", message };
}
var nodeHealthy = ({ node, policy }) => {
  const problem = policy.health.unhealthyNodes === "Wait" ? problemCondition(node, policy) : void 0;
  return problem === void 0 ? void 0 : { reason: "NodeUnhealthy", message: `No update starts while ${problem}` };
};
var notCordonedExternally = ({ node }) => {
  if (!node.unschedulable || ownedByUs(node)) return void 0;
  const message = "Another actor has cordoned the Node; it is updated after it is uncordoned";
  return { reason: "CordonedExternally", message };
};
var restored2 = ({ node }) => {
  if (!ownedByUs(node)) return void 0;
  const message = "The cordon or load balancer exclusion of an earlier attempt has not been removed yet";
  return { reason: "CleanupPending", message };
};
var writable = ({ writeRejection }) => writeRejection === void 0 ? void 0 : specRejected(writeRejection);
var drainNotBlocked = (input) => {
  const { drain, capacity: capacity2, now } = input;
  const found = drain();
  const { block: block2, recheckAt } = found;
  if (block2 === void 0 || capacity2 === void 0 && !isDrainBlocked(found, now)) return void 0;
  const { tryAt, next } = triedAgain(input);
  if (capacity2 === void 0 && tryAt <= now) return void 0;
  const message = `The node cannot be drained: ${block2}${next}`;
  return { reason: "DrainBlocked", message, ...capacity2 === void 0 && { retryAt: Math.min(recheckAt, tryAt) } };
};
function triedAgain({ drain, shadow: shadow2, version: version3, now }) {
  if (!drain().mayOpen) return { tryAt: Infinity, next: "" };
  const tryAt = isRetryRequested(shadow2, version3) ? 0 : nextTryAt(shadow2, now);
  if (tryAt <= now)
    return { tryAt, next: ". It is cordoned for these pods after the other nodes (spec.drain.blockedBudgets)" };
  const message = `. It was cordoned for these pods, and their budgets did not allow an eviction; cordoned again after ${rfc3339(tryAt)} (spec.drain.blockedBudgets)`;
  return { tryAt, next: message };
}
var podsHealthy = (input) => {
  const { drain, policy, capacity: capacity2, now, moment } = input;
  const { podsBefore, unhealthyNodes } = policy.health;
  if (podsBefore === "Ignored" || unhealthyNodes !== "Wait") return void 0;
  const { podHealth, recheckAt } = drain();
  const problem = problemBefore(podHealth(), policy, moment);
  if (problem === void 0 || capacity2 === void 0 && now >= recheckAt) return void 0;
  const reason2 = "NodeUnhealthy";
  const message = `No update starts while ${problem}`;
  const found = { reason: reason2, message, ...capacity2 === void 0 && { retryAt: recheckAt } };
  return podsBefore === "Required" ? found : preferred(input, found);
};
function preferred(input, found) {
  const { shadow: shadow2, ownNamespace, now, moment } = input;
  const until = waitsForPodsUntil(input, ownNamespace, moment);
  if (now >= until) return void 0;
  return {
    ...found,
    message: `${found.message}; it starts at ${rfc3339(until)} even so (spec.health.podsBefore)`,
    ...found.retryAt !== void 0 && { retryAt: Math.min(found.retryAt, until) },
    startsWaiting: podsWaitSince(shadow2, moment) === void 0
  };
}
var podsListed = ({ drain }) => {
  const found = drain();
  if (found.fresh && (found.block === void 0 || found.mayOpen)) return void 0;
  return podsUnknown(found);
};
function podsUnknown({ problem }) {
  if (problem === void 0)
    return { reason: "PodListFailed", message: "The pods on the node are being listed", lookUp: true, isUnknown: true };
  return { reason: "PodListFailed", message: `The pods on the node are not known: ${problem}`, lookUp: true };
}

// packages/controller/src/plan/gates/applications.ts
var MAX_NAMED7 = 3;
var notHeld = ({ held: held3 }) => held3;
var firstNodesObserved = ({ unobserved }) => unobserved();
var workloadsReady = ({ node, policy, workloads, now }) => {
  if (policy.health.workloads === "Ignored") return void 0;
  const found = workloads.belowDesired(node) ?? [];
  if (found.length > 0) {
    const which = `${found.slice(0, MAX_NAMED7).join(", ")}${found.length > MAX_NAMED7 ? " and others" : ""}`;
    const message = `These workloads have a pod on the node, and another pod that is not Ready or is on a node that is being drained: ${which}`;
    return { reason: "WorkloadsNotReady", message };
  }
  return workloads.counts ? void 0 : notListed3(workloads, now);
};
function notListed3({ problem }, now) {
  if (problem === void 0)
    return { reason: "WorkloadsNotReady", message: "The pods of the cluster are being listed", isUnknown: true };
  const message = `The pods of the cluster cannot be listed: ${problem}`;
  return { reason: "PodListFailed", message, retryAt: now + RETRY_LIST_MS, keepsPosition: true };
}
var checksPass = ({ policy, checks: checks3, quorums: quorums2, node, drain }) => notPassed(policy, checks3, quorums2.setsOn({ node, pods: drain().pods }));
function notPassed(policy, checks3, quorums2) {
  const probes = [...probesOf(policy, "Before"), ...templatesOf(policy, quorums2)];
  const answers2 = checks3.all(probes);
  const failed2 = failedOf(answers2);
  if (failed2 !== void 0) {
    const { kind, check: check8 } = failed2.probe;
    const what = kind === "cronJob" ? `The Job of ${check8} cannot run` : `The check ${check8} does not pass`;
    return { reason: "CheckNotPassed", message: `${what}: ${failed2.found}` };
  }
  const unknown7 = answers2.find(({ latest: latest3 }) => latest3 === void 0);
  if (unknown7 === void 0) return void 0;
  return { reason: "CheckNotPassed", message: `The check ${unknown7.probe.check} is being evaluated`, isUnknown: true };
}
function beforeDrain2(input) {
  const jobs2 = progressOf(jobsBefore(input), input);
  const { run, message = "" } = jobs2.failed ?? {};
  if (run === void 0) {
    const quorums2 = new Set(recordedMembers(input.shadow).map(({ quorum: quorum2 }) => quorum2));
    return { blocked: notPassed(input.policy, input.checks, quorums2), jobs: jobs2 };
  }
  return { blocked: { reason: failureReason(run.kind), message }, jobs: jobs2 };
}
var quorumKept = (input) => {
  const { quorums: quorums2, isRollback } = input;
  const asked = askedOf2(input);
  const last = isRollback ? void 0 : quorums2.whyNotLast(asked);
  return quorums2.whyNotStarted(asked) ?? last ?? quorumChecksPass(input, asked);
};
var quorumKeptByDrain = (input) => {
  const { quorums: quorums2, shadow: shadow2 } = input;
  const asked = askedOf2(input);
  return quorums2.whyNotDrained(asked) ?? quorums2.records.whyUnrecorded(shadow2, asked) ?? quorumChecksPass(input, asked);
};
function quorumKeptOtherwise(known, node, policy) {
  if (!known.quorums.isUsed) return void 0;
  const found = known.drains.of(node, policy);
  return found.fresh ? known.quorums.whyNotStarted({ node, pods: found.pods }) : podsUnknown(found);
}
function goesBeforeLast({ quorums: quorums2, node }, { reason: reason2 }) {
  const { passes, fleetWide, withoutTaint } = traitsOf(reason2);
  if (passes !== "manual" && fleetWide !== true && withoutTaint !== true) quorums2.goesFirst(node);
}
function askedOf2({ node, drain }) {
  return { node, pods: drain().pods };
}
function quorumChecksPass({ quorums: quorums2, checks: checks3, fleet }, asked) {
  const wanted = quorums2.checksFor(asked);
  const probes = probesNamed(
    fleet,
    wanted.map(({ check: check8 }) => check8)
  );
  const answers2 = checks3.all(probes);
  const failed2 = failedOf(answers2);
  if (failed2 !== void 0) {
    const { check: check8 } = failed2.probe;
    const { who = "" } = wanted.find((one) => one.check === check8) ?? {};
    return atRisk(`${who} waits for the check ${check8}, which does not pass: ${failed2.found}`);
  }
  const unknown7 = answers2.find(({ latest: latest3 }) => latest3 === void 0);
  if (unknown7 === void 0) return void 0;
  return { ...atRisk(`The check ${unknown7.probe.check} is being evaluated`), isUnknown: true };
}

// packages/controller/src/plan/gates/fleet.ts
var paused = ({ policy, group: group2 }) => {
  return policy.paused ? { reason: "Paused", message: describePause(policy, group2) } : void 0;
};
function describePause({ pauseReason }, group2) {
  const who = group2?.pauses === true ? `${objectOf(group2.name)} pauses its nodes` : `${objectOf()} pauses all updates`;
  return pauseReason === void 0 ? who : `${who}: ${pauseReason}`;
}
var watchFresh = ({ stale }) => {
  if (stale.length === 0) return void 0;
  return { reason: "WatchStale", message: unconfirmed(stale) };
};
function unconfirmed(resources) {
  const what = resources.join(", ");
  const found = "has not been confirmed by an event, a bookmark or a check for more than 2 minutes";
  return `The watch of ${what} ${found}; see "watch failed" in the log`;
}
var clockRight = ({ clockSkewMs = 0 }) => {
  return isClockWrong(clockSkewMs) ? { reason: "ClockSkew", message: describeSkew(clockSkewMs) } : void 0;
};
function describeSkew(clockSkewMs) {
  const differs = `${minutes(Math.abs(clockSkewMs))} minutes ${clockSkewMs > 0 ? "ahead of" : "behind"}`;
  const found = `The clock of the controller's node is about ${differs} that of the Kubernetes API`;
  return `${found}. No update starts until they differ by at most 5 minutes: synchronize the clocks of both`;
}
var connected = ({ connectivity, node }) => {
  if (!lossOf(connectivity, node).lost) return void 0;
  const which = connectivity.lost ? "nodes" : `nodes of its zone ${zoneOf(node)}`;
  const message = `Most ${which} have not renewed their Leases; see the condition Connected of BrupopConfig "cluster"`;
  return { reason: "ConnectivityLost", message };
};
var validConfig = ({ policy, group: group2 }) => {
  if (policy.problem === void 0) return void 0;
  const what = group2?.problem === void 0 ? 'BrupopConfig "cluster" cannot be followed' : "No update starts";
  return { reason: "InvalidConfiguration", message: `${what}: ${policy.problem}` };
};
var notFrozen = ({ frozen: frozen2, version: version3, policy: { versions } }) => {
  const isPinned = versions.pin !== void 0;
  const isHeld = (one) => sameVersion(version3, one.version) || !isPinned && one.holdsOlder && !isLater(version3, one.version);
  const found = frozen2.find(isHeld);
  return found && { reason: "Frozen", message: describeFreeze(found) };
};
function describeFreeze({ version: version3, group: group2 }) {
  return `Too many nodes failed with ${version3}; see the condition Frozen of ${objectOf(group2)}`;
}
var inTurn = (input) => input.othersFirst;
var validGroup = ({ group: group2, shadow: shadow2 }) => {
  const began = groupAtStart(shadow2);
  if (group2?.problem !== void 0) return { reason: "InvalidConfiguration", message: `${group2.policy.problem}` };
  if (began === (group2?.name ?? "")) return void 0;
  const message = `${NODE_GROUP_KIND} "${began}", with which the update began, does not exist any more`;
  return { reason: "InvalidConfiguration", message };
};
var controlPlaneFree = (input) => input.controlPlane;
var capacity = (input) => input.capacity;
var windowOpen = (input) => {
  const { calendar, problem } = input.policy;
  const { needMs, now, isRequested = false } = input;
  if (isRequested && problem === void 0) return outOfBlackouts(input);
  const retryAt = calendar.nextFit(now, needMs);
  if (retryAt !== void 0 && retryAt <= now) return void 0;
  const [reason2, why] = closed(calendar.at(now), needMs);
  if (retryAt !== void 0) return { reason: reason2, message: `${why}; updates may start at ${rfc3339(retryAt)}`, retryAt };
  const everOpens2 = calendar.nextFit(now, 1) !== void 0;
  return everOpens2 ? tooShort(needMs) : { reason: reason2, message: `${why}, and none opens within 400 days` };
};
function outOfBlackouts({ policy: { maintenance }, needMs, now }) {
  const found = maintenance.blackouts.find(({ fromMs, toMs }) => fromMs < now + needMs && now < toMs);
  if (found === void 0) return void 0;
  const state2 = { open: found.fromMs > now, reason: "NoWindows", until: found.toMs, blackout: found };
  const [reason2, why] = closed(state2.open ? state2 : { ...state2, reason: "Blackout" }, needMs);
  return { reason: reason2, message: `${why}; updates may start at ${rfc3339(found.toMs)}`, retryAt: found.toMs };
}
function closed({ open, reason: reason2, blackout: blackout2 }, needMs) {
  const update = `an update of about ${minutes(needMs)} minutes can finish`;
  if (open && reason2 === "NoWindows") return ["Blackout", `A blackout starts before ${update}`];
  if (open) return ["OutsideMaintenanceWindow", `The window that is open closes before ${update}`];
  if (reason2 !== "Blackout") return ["OutsideMaintenanceWindow", "No maintenance window is open"];
  const why = blackout2?.reason === void 0 ? "" : `: ${blackout2.reason}`;
  return ["Blackout", `No node starts an update during this blackout${why}`];
}
function tooShort(needMs) {
  const message = `No maintenance window is long enough for an update of about ${minutes(needMs)} minutes, its margin included. Make a window longer or spec.maintenance.margin shorter. If the latest update of this node or of others took unusually long, remove the annotation ${RECORD_ANNOTATION} from their BottlerocketShadows while these nodes are at rest`;
  return { reason: "WindowTooShort", message };
}
function minutes(ms) {
  return Math.ceil(ms / 3e5) * 5;
}

// packages/controller/src/plan/gates/index.ts
var ALWAYS = ["Start", "Drain", "StartOfRollback", "DrainOfRollback"];
var UPDATES = ["Start", "Drain"];
var ROLLBACKS = ["StartOfRollback", "DrainOfRollback"];
var STARTS = ["Start", "StartOfRollback"];
var DRAINS = ["Drain", "DrainOfRollback"];
var GATES = [
  [watchFresh, ALWAYS],
  [clockRight, ALWAYS],
  [connected, ALWAYS],
  [validGroup, ["Drain"]],
  // Before its drain, a version that has been frozen meanwhile comes first.
  [notFrozen, ["Drain"]],
  [notHeld, ["Drain"]],
  [paused, STARTS],
  [validConfig, STARTS],
  [selected, ALWAYS],
  [notSkipped, ALWAYS],
  [validVersion, ["Start"]],
  [allowedVersion, UPDATES],
  [offeredVersion, STARTS],
  [agentCurrent, ROLLBACKS],
  [nodeReady, UPDATES],
  [nodeHealthy, UPDATES],
  [notCordonedExternally, ALWAYS],
  [restored2, STARTS],
  [backoff, STARTS],
  [notRolledBack, ["Start"]],
  [notAborted, STARTS],
  [writable, STARTS],
  [notFrozen, ["Start"]],
  [notHeld, ["Start"]],
  [inTurn, ["Start"]],
  [windowOpen, UPDATES],
  [drainNotBlocked, STARTS],
  [podsHealthy, ["Start"]],
  [controlPlaneFree, ALWAYS],
  [capacity, ["Start"]],
  [firstNodesObserved, ["Start"]],
  [checksPass, ["Start"]],
  [workloadsReady, UPDATES],
  [quorumKept, STARTS],
  [quorumKeptByDrain, DRAINS],
  [podsListed, STARTS]
];
var gatesAt = (point) => GATES.flatMap(([gate, at2]) => at2.includes(point) ? [gate] : []);
var ASKED = {
  Start: gatesAt("Start"),
  Drain: gatesAt("Drain"),
  StartOfRollback: gatesAt("StartOfRollback"),
  DrainOfRollback: gatesAt("DrainOfRollback")
};
function whyNot(input) {
  return firstOf(ASKED[input.isRollback ? "StartOfRollback" : "Start"], input);
}
function whyNotDrained(input) {
  return firstOf(ASKED[input.isRollback ? "DrainOfRollback" : "Drain"], input);
}

// packages/controller/src/plan/requests.ts
function isUpdateRequested({ metadata: { annotations = {} } }, version3) {
  return sameVersion(annotations[UPDATE_NOW_ANNOTATION], version3);
}
function withRequest(blocked3, { version: version3, isRequested = false }) {
  if (!isRequested) return blocked3;
  const message = `${blocked3.message}. The annotation ${UPDATE_NOW_ANNOTATION} asks for ${version3} now`;
  return { ...blocked3, message: `${message}: the node goes before others, and waits for no window` };
}
function refusedRequest(shadow2, next) {
  return refusedAbort(shadow2) ?? refusedUpdate(shadow2, next);
}
function refusedAbort(shadow2) {
  const found = shadow2.metadata.annotations?.[ABORT_ANNOTATION];
  if (found === void 0) return void 0;
  return { annotation: ABORT_ANNOTATION, reason: "AbortRefused", message: whyNotAborted(shadow2, found) };
}
function whyNotAborted(shadow2, found) {
  if (found !== ABORT_VALUE) return unexpected(ABORT_ANNOTATION, `"${ABORT_VALUE}"`, found);
  if (!isUnderWay(shadow2)) return "No update of this node is under way, so none is ended";
  const { version: version3 } = shadow2.spec;
  const what = shadow2.state === "Proving" ? `The node has booted ${version3}` : `The host may be rebooting into ${version3}`;
  return `${what}, so the update goes on. If the node is not healthy after it, spec.rollout.rollback decides what follows`;
}
function refusedUpdate(shadow2, next) {
  const found = shadow2.metadata.annotations?.[UPDATE_NOW_ANNOTATION];
  const message = found === void 0 ? void 0 : whyNotUpdated(shadow2, found, next);
  return message === void 0 ? void 0 : { annotation: UPDATE_NOW_ANNOTATION, reason: "UpdateNowRefused", message };
}
function whyNotUpdated(shadow2, found, next) {
  if (!isVersion(found)) return unexpected(UPDATE_NOW_ANNOTATION, "a version such as 1.21.0", found);
  if (isUnderWay(shadow2)) return `An update to ${shadow2.spec.version} is under way, so none to ${short(found)} starts`;
  const running = shadow2.status?.current_version;
  if (sameVersion(running, found)) return `The node runs ${running} already`;
  if (next === void 0 || !isVersion(next) || sameVersion(next, found)) return void 0;
  if (sameVersion(next, running))
    return `The node is to run ${next}, as it does, so no update to ${short(found)} starts`;
  return unexpected(UPDATE_NOW_ANNOTATION, `${next}, the version that the node is to run next`, found);
}
function unexpected(annotation, expected, found) {
  return `The annotation ${annotation}: expected ${expected}, found "${short(found)}"`;
}
function short(text6) {
  return shorten(text6, 100);
}

// packages/controller/src/plan/transition.ts
function idleSpec({ settings: settings2 }, now, allow = "None") {
  return {
    state: "Idle",
    version: null,
    state_transition_timestamp: rfc3339(now.ms),
    timeoutSeconds: null,
    settings: specOf(settings2, allow)
  };
}
function idle({ policy, now }, outcome) {
  return { spec: idleSpec(policy, now), outcome };
}
function startSpec(version3, policy, now, allow) {
  return stepSpec({ ...idleSpec(policy, now, allow), version: version3 }, "StagedAndPerformedUpdate", policy, now);
}
function stepSpec(spec, state2, policy, now) {
  const state_transition_timestamp = rfc3339(now.ms);
  return { ...spec, state: state2, state_transition_timestamp, timeoutSeconds: timeoutSeconds(state2, policy) };
}
var STEPS = {
  Staging: [abort, interrupt, supersede, fail, cancel],
  Staged: [abort, interrupt, supersede, startDrain, cancel],
  Draining: [abort, interrupt, supersede, release, fail, prove, cancel],
  Away: [abort, interrupt, fail, prove],
  Proving: [fail, succeed, rollBack, cancelHopeless],
  Finishing: [configure],
  Restoring: [configure],
  Resting: [configure],
  Unconfirmed: [configure]
};
function transition(input) {
  const next = repair(input) ?? firstOf(STEPS[input.state], input);
  const isEnd2 = next?.spec.state === "Idle" && isUnderWay(input.shadow);
  return isEnd2 ? { ...next, jobs: recordsAtEnd(input), restores: isRestored(input) } : next;
}
function abort(input) {
  const isAsked = input.shadow.metadata.annotations?.[ABORT_ANNOTATION] === ABORT_VALUE;
  return isAsked && !mayHaveRebooted(input) ? idle(input, "Aborted") : void 0;
}
function interrupt(input) {
  const { policy } = input;
  return policy.interrupt && !mayHaveRebooted(input) ? idle(input, "Interrupted") : void 0;
}
function supersede(input) {
  const { shadow: shadow2, policy, now } = input;
  const purpose = shadow2.purpose;
  const isEnded = purpose === "Rollback" && !isRollbackWanted(shadow2, policy, now);
  const isOther = purpose === "Settings" && !sameSettings(requestedOf(shadow2), policy.settings);
  const isAllowed = restoresSettings(shadow2, input.settings) || isWanted(shadow2.spec.version ?? "", policy.versions);
  return isAllowed && !isEnded && !isOther ? void 0 : idle(input, "Superseded");
}
function release(input) {
  const { status, metadata: metadata13 } = input.shadow;
  const { observedGeneration, result } = status?.drain ?? {};
  const isOver = observedGeneration === metadata13.generation && result === "Blocked";
  return isOver ? { ...idle(input, "Deferred"), because: NOT_LET_GO } : void 0;
}
var NOT_LET_GO = {
  reason: "DrainBlocked",
  message: "The node was cordoned, and disruption budgets still blocked the eviction of their pods; no other pod was evicted"
};
function configure(input) {
  const { shadow: shadow2 } = input;
  const { state_transition_timestamp } = shadow2.spec;
  if (input.settings?.failure !== void 0) return putBack(input, input.settings.failure);
  if (sameSettings(requestedOf(shadow2), input.policy.settings))
    return isProved(input) ? { ...idle(input, "Configured"), proves: true } : void 0;
  const configured = idle(input, "Configured");
  if (isSettled(shadow2)) return configured;
  return {
    ...configured,
    spec: { ...configured.spec, state_transition_timestamp: state_transition_timestamp ?? null }
  };
}
function putBack({ shadow: shadow2, policy, now, settings: settings2 }, message) {
  const spec = idleSpec(restored(policy, shadow2), now, shadow2.spec.settings?.allow);
  return {
    spec,
    outcome: "SettingsFailed",
    because: { reason: "HostSettingsNotApplied", message },
    failedSettings: settings2?.hash
  };
}
function isRestored({ settings: settings2 }) {
  return settings2?.state === "failed";
}
function unsetSettings(input, problem) {
  const { shadow: shadow2, policy, now } = input;
  const isTried = shadow2.purpose === "Settings" && ownSettings(requestedOf(shadow2)).length > 0;
  const before = isRestored(input) ? policy : restored(policy, shadow2);
  return isTried ? { ...putBack(input, problem), spec: idleSpec(before, now) } : void 0;
}
function grant({ policy, now }, allow) {
  return { spec: idleSpec(policy, now, allow), outcome: "Configured" };
}
function mayHaveRebooted({ state: state2, shadow: shadow2 }) {
  const { spec, status } = shadow2;
  if (state2 === "Staging" || state2 === "Staged") return false;
  const { operation: operation2 } = status?.lastOperation ?? {};
  if (operation2 === "Reboot" || operation2 === "Restore") return true;
  const isOldVersion = state2 === "Draining" && shadow2.purpose === "Settings";
  return !isOldVersion && sameVersion(status?.current_version, spec.version);
}
function repair(input) {
  const { shadow: shadow2, now } = input;
  const { spec } = shadow2;
  if (spec.state === "Idle") return isSettled(shadow2) || !isMisdated(shadow2, now) ? void 0 : redated(spec, now);
  if (spec.state === "ErrorReset" || (spec.version ?? "") === "") return idle(input, "Repaired");
  return stateSince(shadow2, now) === void 0 ? redated(spec, now) : void 0;
}
function redated(spec, now) {
  return { spec: { ...spec, state_transition_timestamp: rfc3339(now.ms) }, outcome: "Repaired" };
}
function fail(input) {
  const { shadow: shadow2, node, policy, now } = input;
  if (!answers(shadow2) || shadow2.status?.current_state !== "ErrorReset") return void 0;
  if (isBootUnconfirmed(shadow2, node) && !isOverdue(shadow2, policy, now)) return void 0;
  return idle(input, isFirstWithdrawal(shadow2) ? "Withdrawn" : "Failed");
}
function isFirstWithdrawal(shadow2) {
  return shadow2.spec.state === "StagedAndPerformedUpdate" && isOutdated(shadow2) && withdrawn(shadow2) === 0;
}
function startDrain(input) {
  const { shadow: shadow2, policy, now } = input;
  const waits = staysStaged(input);
  if (waits !== void 0) return waits === "stays" ? void 0 : waits;
  const spec = stepSpec(shadow2.spec, "RebootedIntoUpdate", policy, now);
  return { spec, outcome: "Advanced", ...shadow2.purpose !== "Rollback" && beforeDrainOf(input) };
}
function prove({ shadow: shadow2, policy, now }) {
  if (!hasReached(shadow2)) return void 0;
  return { spec: stepSpec(shadow2.spec, "MonitoringUpdate", policy, now), outcome: "Advanced" };
}
function succeed(input) {
  if (!hasReached(input.shadow)) return void 0;
  if (hasFailedCheck(input)) {
    const because = { reason: "CheckFailed", message: failedJob(input)?.message ?? "" };
    return goBack(input, because) ?? unsetSettings(input, because.message) ?? { ...idle(input, "CheckFailed"), because };
  }
  const { healthyAt = Infinity } = monitoringOf(input);
  return input.now.reached(healthyAt) ? succeeded(input) : void 0;
}
function staysStaged(input) {
  const { blockedBy: blockedBy2, drain } = input;
  if (blockedBy2 !== void 0) return defer(input) ?? "stays";
  const { blocked: blocked3, jobs: jobs2 } = beforeDrain2(input);
  if (blocked3 !== void 0)
    return blocked3.isUnknown === true ? "stays" : { ...idle(input, "Deferred"), because: blocked3 };
  const runs2 = jobs2.isStarted && !jobs2.isDone;
  if (!runs2 && !mayBeDrained(drain(), input.shadow)) return defer(input) ?? "stays";
  return jobs2.isDone ? void 0 : "stays";
}
function succeeded(input) {
  if (input.shadow.purpose === "Rollback") return idle(input, "Reverted");
  return { ...idle(input, "Succeeded"), ...suspension(input) };
}
function suspension({ shadow: shadow2, policy: { deadlinesFrom = 0 } }) {
  return deadlinesFrom > (shadow2.times.startedAt ?? 0) ? { wasSuspended: true } : {};
}
var STAYS = ["WatchStale", "ClockSkew", "ConnectivityLost", "WorkloadsNotReady", "PodListFailed"];
function defer(input) {
  const { shadow: shadow2, policy, blockedBy: blockedBy2, drain, now } = input;
  const stays = blockedBy2 === void 0 ? !isDrainBlocked(drain(), now.ms) || drain().mayOpen && isTrying(shadow2) : (blockedBy2.isUnknown === true || STAYS.includes(blockedBy2.reason)) && !isOverdue(shadow2, policy, now);
  if (stays) return void 0;
  return { ...idle(input, "Deferred"), ...suspension(input), ...blockedBy2 !== void 0 && { because: blockedBy2 } };
}
function rollBack(input) {
  const { shadow: shadow2, policy, now } = input;
  const { problem, lasting, isUnknown: isUnknown2 } = monitoringOf(input);
  const isKnown2 = problem !== void 0 && lasting !== true && isUnknown2 !== true;
  if (!isKnown2 || hasGoneDown(input)) return void 0;
  const deadline = deadlineOf(shadow2, policy, now);
  return now.reached(deadline) && !isAccepted(deadline, policy, now) ? goBack(input, { reason: "DeadlineExceeded", message: problem }) ?? unsetSettings(input, problem) : void 0;
}
function hasGoneDown({ node, shadow: shadow2, now }) {
  return !node.ready && (node.readySince ?? 0) > (stateSince(shadow2, now) ?? now.ms);
}
function goBack({ shadow: shadow2, policy, now }, because) {
  const previous = previousVersion(shadow2, policy);
  if (previous === void 0 || because === void 0) return void 0;
  return { ...idle({ policy: rollbackPolicy(policy, previous), now }, "Reverting"), previous, because };
}
function cancel(input) {
  const { shadow: shadow2, policy, now } = input;
  return isOverdue(shadow2, policy, now) ? idle(input, "Cancelled") : void 0;
}
function cancelHopeless(input) {
  return monitoringOf(input).lasting === true ? cancel(input) : void 0;
}
function needsPods(input) {
  const { shadow: shadow2, state: state2, drain, blockedBy: blockedBy2 } = input;
  if (monitoringOf(input).lookUp === true) return true;
  if (state2 !== "Staged" || blockedBy2 !== void 0 || mayBeDrained(drain(), shadow2)) return false;
  const { blocked: blocked3, jobs: jobs2 } = beforeDrain2(input);
  return blocked3 === void 0 && (jobs2.isDone || !jobs2.isStarted);
}

// packages/controller/src/plan/assess.ts
function assess(managedNode, fleetState, now) {
  if (!isPair(managedNode)) return { times: [], ...WAITING, managedNode };
  const input = inputOf(managedNode, fleetState, now);
  const { start, ...found } = assessPair(input);
  const candidate = start && { ...managedNode, policy: input.policy, ...start };
  return { times: [], ...found, managedNode, ...candidate !== void 0 && { candidate } };
}
function inputOf(pair, fleetState, now) {
  const { status, spec, state: state2, record: record9, purpose } = pair.shadow;
  if (state2 === "Staged" || state2 === "Proving" || record9.jobs !== void 0) now.holdsOnce();
  return {
    ...pair,
    state: state2,
    policy: policyFor(pair, now),
    drain: () => {
      now.holdsOnce();
      return fleetState.drains.of(pair.node, pair.policy);
    },
    blockedBy: state2 === "Staged" && status !== void 0 ? whyNotDrainedNow(
      {
        ...pair,
        status,
        version: spec.version ?? "",
        isReboot: purpose === "Settings",
        isRequested: record9.updateNow === true,
        isRollback: purpose === "Rollback" || restoresSettings(pair.shadow, fleetState.settings.get(pair.name))
      },
      fleetState
    ) : void 0,
    ownNamespace: fleetState.ownNamespace,
    checks: fleetState.checks,
    workloads: fleetState.workloads,
    quorums: fleetState.quorums,
    settings: fleetState.settings.get(pair.name),
    now
  };
}
function whyNotDrainedNow(candidate, fleetState) {
  const { name, node, shadow: shadow2, policy } = candidate;
  const { now } = fleetState;
  const estimate = estimateFor(fleetState.estimate, policy.maintenance);
  const since = shadow2.times.startedAt ?? now;
  const needMs = Math.max(1, estimate.marginMs + Math.max(0, expectedMs(shadow2, estimate) - (now - since)));
  const overLimit = fleetState.nodesOverLimit.has(name) && !candidate.isRollback ? OVER_LIMIT : void 0;
  const late = isOverdue(shadow2, policy, fleetState.moment) ? LATE : void 0;
  const controlPlane = fleetState.controlPlane.whyNotDrained(candidate);
  const input = gateInput(candidate, fleetState, { ...NO_LIMITS, controlPlane, needMs });
  const blocked3 = whyNotDrained(input) ?? overLimit ?? late;
  if (blocked3 === void 0) {
    fleetState.workloads.drains(node);
    fleetState.controlPlane.drains(node);
    fleetState.quorums.drains(node);
  }
  return blocked3;
}
var LATE = {
  reason: "WaitingForCapacity",
  message: "Its drain could not start before the deadline of its staging"
};
var NO_LIMITS = { capacity: void 0, othersFirst: void 0 };
var OVER_LIMIT = {
  reason: "WaitingForCapacity",
  message: "More nodes are unavailable than the limits allow"
};
var WAITING = { phase: "waiting" };
function assessPair(input) {
  const { node, shadow: shadow2, state: state2 } = input;
  const change = transition(input);
  if (!isManaged(node)) return { change: shadow2.spec.state === "Idle" ? change : idle(input, "Released") };
  if (STATES[state2].isUnderWay) return withRejection(input, assessUnderWay(input, change));
  return isSettled(shadow2) ? withRejection(input, assessSettled(input, change)) : assessUnsettled(input, change);
}
function withRejection({ writeRejection }, found) {
  if (found.change === void 0 || writeRejection === void 0) return found;
  return { ...found, progressing: waiting2(specRejected(writeRejection)) };
}
function assessUnderWay(input, change) {
  const { shadow: shadow2, policy, now } = input;
  const { healthyAt, recheckAt, problem, jobs: jobs2 } = { ...monitoringOf(input), ...jobsBeforeDrain(input) };
  const times = [deadlineOf(shadow2, policy, now), healthyAt, recheckAt, ...jobs2?.times ?? []];
  const lookUp = change === void 0 && needsPods(input);
  const isCancelled = change?.outcome === "Cancelled";
  const isStarting = startsUp(input);
  if (isOverdue(shadow2, policy, now) && (change === void 0 || isCancelled)) {
    const progressing4 = overdue(input, isCancelled);
    const cancelled2 = change && { ...change, because: progressing4 };
    return { change: cancelled2, progressing: progressing4, phase: "failed", lookUp, jobs: jobs2, times, isStarting };
  }
  const { blockedAt, block: block2 } = longBlock(input);
  const progressing3 = blockedDrain2(updatingCondition(input, problem, lookUp), block2);
  const pending2 = !sameSettings(requestedOf(shadow2), policy.settings) || !isComplete(input.settings);
  return { change, progressing: progressing3, phase: "updating", pending: pending2, lookUp, jobs: jobs2, times: [...times, blockedAt], isStarting };
}
var BLOCKED_MS = 6e4;
function longBlock({ shadow: shadow2, now }) {
  const block2 = blockOf(shadow2);
  if (block2 === void 0) return {};
  const blockedAt = (parseTime(block2.since) ?? now.ms) + BLOCKED_MS;
  return now.reached(blockedAt) ? { blockedAt, block: block2 } : { blockedAt };
}
function startsUp(input) {
  const { node, state: state2 } = input;
  if (state2 === "Draining" || state2 === "Away") return node.unschedulable || node.hasStartupTaint;
  return state2 === "Proving" && node.hasStartupTaint && !areDaemonSetsReady(input);
}
function jobsBeforeDrain(input) {
  const { shadow: shadow2, state: state2, blockedBy: blockedBy2, drain } = input;
  if (state2 !== "Staged" || blockedBy2 !== void 0) return {};
  const { blocked: blocked3, jobs: jobs2 } = beforeDrain2(input);
  const isDue = blocked3 === void 0 && (jobs2.isStarted || mayBeDrained(drain(), shadow2));
  return isDue ? { problem: jobs2.waitsFor, jobs: jobs2 } : {};
}
function updatingCondition(input, unhealthy, lookUp) {
  const { blockedBy: blockedBy2 } = input;
  const isBlocked = blockedBy2 !== void 0 && blockedBy2.isUnknown !== true;
  return isBlocked ? notDrained(blockedBy2) : stepCondition(input, unhealthy, lookUp);
}
function provingCondition(shadow2, unhealthy) {
  const problem = hasReached(shadow2) ? unhealthy : void 0;
  const isForSettings = problem === void 0 && shadow2.purpose === "Settings";
  return isForSettings ? rebooting() : monitored(shadow2.spec.version ?? "", problem);
}
function stepCondition({ shadow: shadow2, state: state2, drain }, unhealthy, lookUp) {
  const version3 = shadow2.spec.version ?? "";
  if (state2 === "Proving") return provingCondition(shadow2, unhealthy);
  if (unhealthy !== void 0) return staged(version3, unhealthy);
  if (shadow2.purpose === "Rollback") return goingBack(version3, shadow2.rollback?.failed ?? "?");
  const podsProblem = lookUp ? drain().problem : void 0;
  return shadow2.purpose === "Settings" ? rebooting(podsProblem) : updating(version3, podsProblem);
}
function assessSettled(input, change) {
  const { shadow: shadow2, policy } = input;
  const { status } = shadow2;
  if (status === void 0) return WAITING;
  const { current_version: running, target_version: offered } = status;
  const version3 = nextVersion(input, status);
  const problem = problemOf5(input, status);
  const found = { change, next: version3, ...settingsOf(input, change) };
  if (hasHooksLeft(input)) return { ...found, ...runningHooks(progressOf(hooksAfter(input), input), policy) };
  if (problem !== void 0 && sameVersion(running, offered)) {
    return { ...found, progressing: notConfigured(problem), phase: "waiting" };
  }
  if (failedCheckAt(input) !== void 0) return { ...found, progressing: checkFailed(running), phase: "failed" };
  if (sameVersion(running, version3) && !needsReboot(input.settings)) {
    return { ...found, ...restingOf(input, status) };
  }
  const phase2 = failures(shadow2) > 0 ? "failed" : "waiting";
  return { ...found, phase: phase2, ...startOf(input, { change, status, version: version3 }) };
}
function problemOf5({ settings: settings2 }, status) {
  return awaitsRestore(settings2) ? void 0 : status.settings?.message;
}
function nextVersion({ settings: settings2, policy }, status) {
  const { current_version: running, target_version: offered } = status;
  return awaitsRestore(settings2) ? running : wantedVersion(offered, policy.versions);
}
var UNCHECKED = ["UpdateCheckFailed", "HostStatusUnreadable"];
function failedCheckOf({ lastOperation: last }) {
  return last?.state === "Failed" && UNCHECKED.includes(last.errorCode) ? last : void 0;
}
function restingOf({ node, settings: settings2, policy: { versions } }, status) {
  const { current_version: running, settings: { hostLock, cannotUnset } = {} } = status;
  const isFree = versions.pin === void 0 && skippedBy(node) === void 0;
  if (hostLock !== void 0 && isFree) return { progressing: hostLocked(hostLock), phase: "waiting" };
  const unset = whyNotInForce(settings2);
  const failed2 = isFree ? failedCheckOf(status) : void 0;
  if (failed2 !== void 0 && unset?.reason !== "ChangingSettings")
    return { progressing: unchecked(running, failed2), phase: "waiting" };
  if (unset !== void 0) return { progressing: waiting2(unset), phase: "upToDate" };
  return { progressing: upToDate(running, versions.pin !== void 0, cannotUnset), phase: "upToDate" };
}
function startOf(input, { change, status, version: version3 }) {
  const { shadow: shadow2, policy, settings: settings2, now } = input;
  if (isChanging(settings2)) return { progressing: waiting2(CHANGING) };
  if (change !== void 0) return {};
  const isReboot = sameVersion(version3, status.current_version);
  const isRollback = pendingRollback(shadow2, policy, now) !== void 0 || isReboot && awaitsRestore(settings2);
  const isRequested = !isReboot && !isRollback && isUpdateRequested(shadow2, version3);
  return { start: { status, version: version3, isReboot, isRollback, isRequested } };
}
function settingsOf({ settings: settings2 }, change) {
  const pending2 = change !== void 0 || !isComplete(settings2);
  return { pending: pending2, grant: settings2 && grantable(settings2), times: [settings2?.changesAt] };
}
function runningHooks(jobs2, { isSuspended = false }) {
  const progressing3 = runsHooks(jobs2.waitsFor ?? "all hooks have ended");
  return { progressing: progressing3, phase: "updating", ...!isSuspended && { jobs: jobs2, times: jobs2.times } };
}
function assessUnsettled({ shadow: shadow2, settings: settings2, ownNamespace, now }, change) {
  const at2 = notRespondingAt(shadow2, now);
  const waiting3 = { change, phase: "waiting", times: [at2] };
  if (shadow2.status === void 0) {
    const neverConnected = now.reached(at2);
    return { ...waiting3, progressing: agentNotConnected(ownNamespace), pending: !neverConnected, neverConnected };
  }
  if (!now.reached(at2)) return { change, phase: phaseBefore(shadow2), pending: true, times: [at2] };
  return { ...waiting3, progressing: agentNotResponding(shadow2.status.lastOperation), pending: !isComplete(settings2) };
}
var OF_SETTINGS = ["ChangingSettings", "SettingsConflict"];
function phaseBefore({ progressing: progressing3, status }) {
  const reason2 = progressing3?.reason ?? "";
  const isCurrent = sameVersion(status?.current_version, status?.target_version);
  if (reason2 === "UpToDate" || isCurrent && OF_SETTINGS.includes(reason2)) return "upToDate";
  return progressing3?.reason === "Updating" ? "updating" : "waiting";
}

// packages/controller/src/plan/order.ts
var import_node_crypto3 = require("node:crypto");
var RECENT_MS = 24 * 60 * 6e4;
function inOrder2(candidates, ordering) {
  return candidates.map((candidate) => ({ candidate, rank: rankOf(candidate, ordering) })).toSorted((a, b) => compare(a.rank, b.rank)).map(({ candidate }) => candidate);
}
function rankOf(candidate, { ownNode, isBlocked, isLast, now }) {
  const { node, shadow: shadow2, version: version3, status, policy, isRequested = false } = candidate;
  const { order } = policy;
  const { name, uid, annotations = {} } = node.metadata;
  const positions = { Name: () => "", Random: () => shuffled(uid, version3), OldestBoot: () => byTime(status.bootTime) };
  const position = positions[order]();
  const own2 = name === ownNode ? 1 : 0;
  return [
    isBlocked?.(candidate) === true && !isRequested ? 1 : 0,
    isLast?.(node) === true ? 1 : 0,
    isRequested ? 0 : 1,
    lastAttempt(candidate, now),
    own2,
    healthRank(node, policy),
    -priority(annotations[PRIORITY_ANNOTATION]),
    failures(shadow2),
    position,
    name
  ];
}
function healthRank(node, { health }) {
  if (health.unhealthyNodes === "Wait" || problemCondition(node, { health }) === void 0) return 0;
  return health.unhealthyNodes === "First" ? -1 : 1;
}
function byTime(time2) {
  return String(parseTime(time2) ?? Number.MAX_SAFE_INTEGER).padStart(16, "0");
}
function lastAttempt({ shadow: shadow2, former: former2, group: group2 }, now) {
  const isExcused = endedByConfig(shadow2) && groupAtStart(shadow2) === (group2?.name ?? "");
  const since = Math.max(isExcused ? 0 : shadow2.times.startedAt ?? 0, former2?.startedAt ?? 0);
  return since > now - RECENT_MS && since <= now + CLOCK_TOLERANCE_MS ? since : 0;
}
function shuffled(uid, version3) {
  return (0, import_node_crypto3.createHash)("sha256").update(`${uid}/${version3}`).digest("hex");
}
function priority(text6) {
  return text6 !== void 0 && /^-?\d{1,9}$/u.test(text6) ? Number(text6) : 0;
}
function compare(a, b) {
  const at2 = a.findIndex((value2, i) => value2 !== b[i]);
  const [x = 0, y = 0] = [a[at2], b[at2]];
  if (at2 < 0) return 0;
  return x < y ? -1 : 1;
}

// packages/controller/src/plan/record-changes.ts
function recordChanges(decisions, { observation, now }) {
  const suspects = new Map(observation.changes.map((one) => [one.pair.name, one]));
  return decisions.flatMap((decision) => {
    const { managedNode, change, jobs: jobs2, blocked: blocked3 } = decision;
    if (change !== void 0 || !isPair(managedNode)) return [];
    const refused = refusedRequest(managedNode.shadow, decision.next);
    if (refused !== void 0) return [withRefusal(managedNode, refused)];
    if (jobs2 !== void 0) return [];
    if (managedNode.shadow.record.isUnreadable === true) return [];
    const found = suspects.get(managedNode.name);
    if (found !== void 0) return [withSuspects(found)];
    if (blocked3?.startsWaiting !== true) return [];
    const { shadow: shadow2, node } = managedNode;
    return [{ shadow: shadow2, node, record: { ...shadow2.record, podsWaitSince: rfc3339(now) }, event: void 0 }];
  });
}
function withRefusal({ shadow: shadow2, node }, { annotation, reason: reason2, message }) {
  const { uid, resourceVersion } = shadow2.metadata;
  const event2 = eventOn(node, shadow2, { reason: reason2, message, key: `${uid}/${annotation}/${resourceVersion}` });
  return { shadow: shadow2, node, record: shadow2.record, refused: annotation, event: event2 };
}
function withSuspects({ pair: { shadow: shadow2, node }, suspects }) {
  const record9 = { ...shadow2.record, suspects: suspects.length === 0 ? void 0 : suspects };
  const since = suspects[0]?.at ?? shadow2.record.suspects?.[0]?.at ?? "";
  const version3 = shadow2.updated?.version ?? "?";
  const event2 = suspects.length > 0 ? { reason: "Suspect", message: `Since its update to ${version3}, ${describeSuspects(suspects)}` } : { reason: "SuspectEnded", message: "No workload fails on the node any more" };
  const key2 = `${shadow2.metadata.uid}/${since}/${suspects.map(({ workload }) => workload).join(" ")}`;
  return { shadow: shadow2, node, record: record9, event: eventOn(node, shadow2, { ...event2, key: key2 }) };
}

// packages/controller/src/plan/plan.ts
function plan(snapshot, now, kept) {
  const fleetState = fleetStateOf(snapshot, now, kept.facts);
  const assessments = [...fleetState.facts].map(
    ([one, facts]) => kept.assessments.of(facts, now, (moment) => assess(one, fleetState, moment))
  );
  const candidates = assessments.flatMap(({ candidate }) => candidate ?? []);
  const admitted = admit(candidates, fleetState, snapshot);
  const { decisions, grants } = decideAll(assessments, admitted, fleetState);
  return {
    fleetState,
    decisions,
    admitted,
    grants,
    ...specsOf(decisions),
    taints: decisions.flatMap(taintChanges),
    records: recordChanges(decisions, fleetState)
  };
}
function mayOpen({ node, policy }, { drains }) {
  return drains.known(node, policy).mayOpen;
}
function admit(candidates, fleetState, { pods, ownNode }) {
  const { quorums: quorums2, now } = fleetState;
  const isBlocked = (one) => mayOpen(one, fleetState);
  const failing = [...pods.values()].filter(({ problem, isTooLarge }) => problem !== void 0 && isTooLarge !== true);
  const noListWorks = failing.length > MAX_FAILING_LISTS;
  return new Map(
    inOrder2(candidates, { ownNode, isBlocked, isLast: (node) => quorums2.isLast(node), now }).map((candidate) => {
      const input = inputAtStart(candidate, fleetState);
      const blocked3 = whyNot(input);
      const isLookedUp = blocked3?.lookUp === true && (noListWorks || input.drain().problem === void 0);
      const keepsPosition = isLookedUp || blocked3?.keepsPosition === true;
      if (blocked3 === void 0 || keepsPosition || blocked3.isUnknown === true) reserve(candidate, fleetState);
      else goesBeforeLast(input, blocked3);
      return [candidate, blocked3];
    })
  );
}
function inputAtStart(candidate, fleetState) {
  const { shadow: shadow2, policy, isRollback } = candidate;
  const { capacity: capacity2, controlPlane } = fleetState;
  const estimate = estimateFor(fleetState.estimate, policy.maintenance);
  return gateInput(candidate, fleetState, {
    needMs: expectedMs(shadow2, estimate) + estimate.marginMs,
    // The slot of a rollback is that of the update that failed.
    capacity: isRollback ? void 0 : capacity2.check(candidate),
    controlPlane: isRollback ? controlPlane.whyNotDrained(candidate) : controlPlane.whyNotStarted(candidate),
    othersFirst: othersBefore(candidate, fleetState)
  });
}
function othersBefore(candidate, fleetState) {
  const { canaries, groupOrder, settingsRollouts } = fleetState;
  if (candidate.isReboot) return settingsRollouts.check(candidate, "InReboot");
  const earlier = groupOrder.check(candidate, candidate.version);
  return canaries.check(candidate, candidate.version) ?? earlier;
}
function reserve(candidate, fleetState) {
  const { node, version: version3, isReboot, isRollback } = candidate;
  fleetState.controlPlane.starts(node);
  fleetState.quorums.starts(node);
  if (isRollback) return;
  fleetState.capacity.reserve(candidate, true);
  if (isReboot) fleetState.settingsRollouts.reserve(candidate, "InReboot");
  else fleetState.canaries.reserve(candidate, version3);
}
var WaitingConditions = class {
  #made = /* @__PURE__ */ new Map();
  of(blocked3) {
    const made = this.#made.get(blocked3) ?? waiting2(blocked3);
    this.#made.set(blocked3, made);
    return made;
  }
};
function decide(assessment, admitted, fleetState, conditions2) {
  const { candidate } = assessment;
  if (candidate === void 0) return assessment;
  const blocked3 = admitted.get(candidate);
  if (blocked3 !== void 0) {
    const progressing4 = blocked3.isUnknown === true ? void 0 : conditions2.of(withRequest(blocked3, candidate));
    return { ...assessment, lookUp: blocked3.lookUp ?? false, blocked: blocked3, progressing: progressing4 };
  }
  const { node, group: group2, policy } = candidate;
  const jobs2 = recordsAtStart(policy, candidate.status.current_version, candidate.version);
  const spec = startSpec(candidate.version, policy, fleetState.moment, allowedAtStart(candidate, fleetState));
  const isBlocked = mayOpen(candidate, fleetState);
  const members2 = fleetState.quorums.records.recordOf({ node, pods: fleetState.drains.known(node, policy).pods });
  const restores = fleetState.settings.get(candidate.name)?.state === "failed";
  const unhealthyPods2 = podsWaitedFor(candidate, fleetState);
  const change = {
    spec,
    outcome: "Started",
    jobs: jobs2,
    members: members2,
    group: group2?.name,
    isBlocked,
    restores,
    unhealthyPods: unhealthyPods2,
    isRequested: candidate.isRequested
  };
  const progressing3 = candidate.isReboot ? rebooting() : updating(candidate.version);
  return { ...assessment, change, progressing: progressing3, phase: "updating" };
}
function podsWaitedFor({ node, shadow: shadow2, policy }, { drains, moment }) {
  if (shadow2.record.podsWaitSince === void 0) return void 0;
  return problemBefore(drains.known(node, policy).podHealth(), policy, moment);
}
function allowedAtStart(candidate, { settings: settings2, settingsRollouts }) {
  const facts = settings2.get(candidate.name);
  return facts === void 0 || settingsRollouts.areStopped(candidate) ? "None" : allowedAtReboot(facts);
}
function decideAll(assessments, admitted, fleetState) {
  const conditions2 = new WaitingConditions();
  const decided = assessments.map((assessment) => decide(assessment, admitted, fleetState, conditions2));
  const grants = grantsOf(decided, fleetState);
  const decisions = decided.map((decision) => withFailure(withGrant(decision, grants, fleetState)));
  return { decisions, grants };
}
var MAX_GRANTS = 100;
var RESTART_MS = 5 * 6e4;
function grantsOf(decisions, fleetState) {
  const { settingsRollouts, capacity: capacity2, controlPlane, quorums: quorums2 } = fleetState;
  const granted = /* @__PURE__ */ new Map();
  const waiting3 = /* @__PURE__ */ new Map();
  const due = decisions.flatMap(
    ({ managedNode, grant: grant2, change }) => grant2 !== void 0 && change === void 0 && isPair(managedNode) ? [{ ...managedNode, grant: grant2 }] : []
  );
  for (const one of due.toSorted((a, b) => a.name < b.name ? -1 : 1)) {
    const blocked3 = whyNotGranted(one, fleetState);
    if (blocked3 !== void 0) waiting3.set(one.name, blocked3);
    else if (granted.size < MAX_GRANTS) {
      granted.set(one.name, one.grant);
      settingsRollouts.reserve(one, "AtRest");
      if (one.grant === "Live") continue;
      capacity2.reserve(one, true);
      controlPlane.starts(one.node);
      quorums2.starts(one.node);
    }
  }
  return { granted, waiting: waiting3 };
}
function whyNotGranted({ grant: grant2, ...one }, fleetState) {
  const input = { ...fleetState, ...one, needMs: RESTART_MS };
  const gates = grant2 === "Live" ? GRANT_GATES : [...GRANT_GATES, notSkipped];
  const blocked3 = firstOf(gates, input) ?? fleetState.settingsRollouts.check(one, "AtRest");
  if (blocked3 !== void 0 || grant2 === "Live") return blocked3;
  return windowOpen(input) ?? fleetState.controlPlane.whyNotStarted(one) ?? fleetState.capacity.check(one) ?? quorumKeptOtherwise(fleetState, one.node, one.policy);
}
var GRANT_GATES = [watchFresh, clockRight, connected, paused, validConfig, ready, writable];
function ready({ node }) {
  return node.ready ? void 0 : { reason: "NodeNotReady", message: "The Node is not Ready" };
}
function withFailure(decision) {
  const { writeFailure } = decision.managedNode;
  if (writeFailure === void 0 || decision.change === void 0) return decision;
  return { ...decision, progressing: waiting2(specRejected(writeFailure)) };
}
function withGrant(decision, { granted, waiting: blocked3 }, fleetState) {
  const { managedNode } = decision;
  const waits = blocked3.get(managedNode.name);
  const isChanging2 = decision.phase === "upToDate" && decision.progressing?.reason === "ChangingSettings";
  if (waits !== void 0) {
    const progressing3 = waits.isUnknown === true ? void 0 : waiting2(waits);
    return { ...decision, ...needsPodsFor(waits), ...isChanging2 && { progressing: progressing3 } };
  }
  const allow = granted.get(managedNode.name);
  if (allow === void 0 || !isPair(managedNode)) return decision;
  const policy = policyFor(managedNode, fleetState.moment);
  return { ...decision, change: grant({ policy, now: fleetState.moment }, allow), pending: true };
}
function needsPodsFor({ lookUp }) {
  return lookUp === void 0 ? {} : { lookUp };
}
function taintChanges(decision) {
  const { managedNode, isStarting = false } = decision;
  const { node } = managedNode;
  const { drain } = managedNode.policy;
  if (node === void 0) return [];
  const waiting3 = drain.taintWaitingNodes && isManaged(node) && isWaiting(decision);
  const startup = drain.startupTaint && isManaged(node) && isStarting;
  const isSame5 = node.hasWaitingTaint === waiting3 && node.hasStartupTaint === startup;
  return isSame5 ? [] : [{ node, waiting: waiting3, startup }];
}
function isWaiting({ phase: phase2, candidate, blocked: blocked3 }) {
  const isTainted = blocked3 === void 0 || traitsOf(blocked3.reason).withoutTaint !== true;
  return phase2 === "updating" || phase2 === "waiting" && candidate !== void 0 && isTainted;
}
var MAX_CONFIGURED = 100;
function specsOf(decisions) {
  const all = decisions.flatMap(specChanges);
  const configured = all.filter(({ outcome }) => outcome === "Configured");
  const others = all.filter(({ outcome }) => outcome !== "Configured");
  return { specs: [...others, ...configured.slice(0, MAX_CONFIGURED)], moreSpecs: configured.length > MAX_CONFIGURED };
}
function specChanges({ managedNode, change }) {
  return change === void 0 || !isPair(managedNode) ? [] : [specChange(change, managedNode)];
}

// packages/controller/src/report/forecast.ts
var MAX_QUEUE = 20;
var FOR_OTHERS = /* @__PURE__ */ new Set(["WaitingForCanary", "WaitingForNodeGroup"]);
var LEFT_OUT = /* @__PURE__ */ new Set(["Skipped", "NotSelected", "VersionDenied"]);
function forecastOf(fleetState, counted, admitted) {
  const byGroup = Map.groupBy(counted, ({ managedNode }) => managedNode.group?.name);
  const fleet = scopeOf(void 0, counted, fleetState);
  const groups = new Map(
    fleetState.groups.map((group2) => [group2.name, scopeOf(group2, byGroup.get(group2.name) ?? [], fleetState)])
  );
  const alike = alikeOf(fleet, groups);
  const all = [fleet, ...new Set(alike.values()), ...groups.values()];
  for (const [candidate, blocked3] of admitted) {
    if (blocked3 === void 0) continue;
    const group2 = candidate.group?.name ?? "";
    const scopes = [fleet, alike.get(group2), groups.get(group2)].filter((scope) => scope !== void 0);
    const one = { candidate, blocked: blocked3, shown: shownReason(candidate, blocked3), scopes, from: void 0, before: [] };
    for (const { waiting: waiting3 } of scopes) waiting3.push(one);
  }
  enqueue(fleet, all, groups, fleetState);
  return {
    ...reported(fleet, all, fleetState),
    ofGroups: new Map([...groups].map(([name, scope]) => [name, reported(scope, [scope], fleetState)])),
    versions: fleetState.versions,
    measuredMs: fleetState.estimate.measuredMs
  };
}
function scopeOf(group2, members2, fleetState) {
  const { estimate, stuck, now } = fleetState;
  const { policy } = group2 ?? fleetState;
  const ends = members2.flatMap(({ phase: phase2, managedNode: { shadow: shadow2, policy: own2 } }) => {
    if (phase2 !== "updating") return [];
    const end = (shadow2?.times.startedAt ?? now) + estimateFor(estimate, own2.maintenance).usualMs;
    return [end > now ? end : void 0];
  });
  const limit = Math.max(1, atOnce(policy, members2)) - (group2 === void 0 ? stuck.length : 0);
  const slots = Math.min(members2.length, limit);
  const unused = Array.from({ length: Math.max(0, slots - ends.length) }, () => now);
  const used = ends.filter((end) => end !== void 0).toSorted((a, b) => a - b);
  return {
    policy,
    members: members2,
    before: group2 === void 0 ? fleetState.before : fleetState.groupsBefore.get(group2.name),
    ends,
    free: [...unused, ...used.slice(Math.max(0, used.length - slots))],
    waiting: [],
    queues: /* @__PURE__ */ new Map()
  };
}
function atOnce({ concurrency }, members2) {
  const { maxUpdating, maxUnavailable = { percent: 100 }, maxPerZone = Infinity, maxZones = Infinity } = concurrency;
  const zones = new Set(members2.map(({ managedNode: { node } }) => node && zoneOf(node))).size;
  const limits = [maxUpdating, maxUnavailable].map((limit) => nodesAtOnce(limit, members2.length));
  return Math.min(maxPerZone * Math.min(zones, maxZones), ...limits);
}
function alikeOf(fleet, groups) {
  const byWindows = /* @__PURE__ */ new Map();
  const ofScopes = [["", fleet], ...groups].map(([name, { policy }]) => {
    const { timeZone: timeZone2, windows, blackouts } = policy.maintenance;
    const key2 = JSON.stringify([timeZone2, windows, blackouts]);
    const alike = byWindows.get(key2) ?? { ...fleet, ends: [], waiting: [], queues: /* @__PURE__ */ new Map() };
    byWindows.set(key2, alike);
    return [name, alike];
  });
  return new Map(ofScopes);
}
function enqueue(fleet, all, groups, fleetState) {
  const isStuck = fleet.ends.every((end) => end === void 0);
  for (const one of fleet.waiting) if (!isOrdered(one)) add2(one, openFrom(one.blocked, isStuck, fleetState.now));
  const canaries = latest2(endsOf(all, isAwaited, fleetState), fleetState.policy.rollout.soakMs);
  const canariesOf = (name = "") => {
    const [group2, scope] = [fleetState.groups.find((one) => one.name === name), groups.get(name)];
    if (scope === void 0 || group2?.lanes.has("canaries") !== true) return canaries;
    return latest2(endsOf([scope], isAwaited, fleetState), group2.policy.rollout.soakMs);
  };
  const left = Map.groupBy(fleet.waiting.filter(isOrdered), ({ candidate }) => candidate.group?.name);
  const addGroup = (name) => {
    const members2 = left.get(name) ?? [];
    if (members2.length === 0) return;
    const { after = [], soakMs = 0 } = members2[0]?.candidate.group ?? {};
    left.delete(name);
    for (const one of after) addGroup(one);
    const earlier = after.flatMap((one) => groups.get(one) ?? []);
    const awaited = endsOf(earlier, isAwaited, fleetState);
    const done = awaited.length === 0 ? [] : [latest2(awaited, soakMs)];
    const first = canariesOf(name);
    for (const one of members2) add2(one, latest2([...done, ...ownStart(one.blocked, first)]));
  };
  for (const name of left.keys()) addGroup(name);
}
function isOrdered({ candidate: { group: group2 }, blocked: { reason: reason2 } }) {
  return FOR_OTHERS.has(reason2) || reason2 === "Soaking" && (group2?.after.length ?? 0) > 0;
}
function ownStart({ reason: reason2, retryAt }, canaries) {
  if (reason2 === "WaitingForNodeGroup") return [];
  return [reason2 === "WaitingForCanary" ? canaries : retryAt];
}
function isAwaited({ blocked: { reason: reason2 } }) {
  return !LEFT_OUT.has(reason2);
}
function openFrom({ reason: reason2, retryAt }, isStuck, now) {
  if (!passesInTime(reason2) || isStuck && traitsOf(reason2).passes === "capacity") return void 0;
  return reason2 === "MinimumAgeNotReached" ? retryAt : retryAt ?? now;
}
function add2(one, from) {
  one.from = from;
  one.before = one.scopes.map(({ queues }) => {
    const queue = queues.get(from) ?? [];
    queues.set(from, queue);
    return queue.push(one) - 1;
  });
}
function endsOf(scopes, counts2, fleetState) {
  const { estimate } = fleetState;
  const takesLonger = ({ candidate: { shadow: shadow2, policy } }) => {
    const { usualMs } = estimateFor(estimate, policy.maintenance);
    return expectedMs(shadow2, { usualMs }) > usualMs;
  };
  const lastOf2 = (queue) => {
    const counted = queue.filter(counts2);
    return counted.filter((one, i) => i === counted.length - 1 || takesLonger(one));
  };
  const last = scopes.flatMap(({ queues }) => [...queues.values()].flatMap(lastOf2));
  return [...scopes.flatMap(({ ends }) => ends), ...last.map((one) => endOf2(one, fleetState))];
}
function endOf2({ candidate, scopes, from, before }, { estimate, now }) {
  const { calendar, maintenance } = candidate.policy;
  const { usualMs, marginMs } = estimateFor(estimate, maintenance);
  const starts = scopes.map(({ free }, index) => {
    const others = before[index] ?? 0;
    const freeAt = free[others % free.length];
    if (from === void 0 || freeAt === void 0) return void 0;
    const [start2, earlier] = [Math.max(from, freeAt), Math.floor(others / free.length)];
    if (index === 0) return start2 + earlier * usualMs;
    return calendar.nextFit(start2, usualMs + marginMs, now, earlier, Math.max(1, usualMs));
  });
  const needMs = expectedMs(candidate.shadow, { usualMs });
  const start = latest2(starts);
  return start === void 0 ? void 0 : latest2([calendar.nextFit(start, needMs + marginMs, now)], needMs);
}
function latest2(times, plusMs = 0) {
  if (times.length === 0 || times.includes(void 0)) return void 0;
  return times.reduce((a, b = 0) => Math.max(a, b), 0) + plusMs;
}
function reported({ policy, members: members2, before, waiting: waiting3 }, scopes, fleetState) {
  const { now } = fleetState;
  return {
    queue: [...waiting3.filter((one) => !isExcluded(one)), ...waiting3.filter(isExcluded)].slice(0, MAX_QUEUE).map((one) => {
      const { name: node, version: version3 } = one.candidate;
      const known = before?.plan?.find((planned) => planned.node === node)?.expectedTime;
      const expectedTime = steady(known, endOf2(one, fleetState), now);
      return { node, version: version3, reason: one.shown, ...expectedTime !== void 0 && { expectedTime } };
    }),
    completionTime: steady(before?.expectedCompletionTime, latest2(endsOf(scopes, isExpected, fleetState)), now),
    ...reasonsOf(members2),
    window: policy.calendar.at(now),
    nextOpenAt: policy.calendar.nextFit(now, 1)
  };
}
function shownReason({ shadow: shadow2 }, { reason: reason2, isUnknown: isUnknown2 }) {
  const known = shadow2.progressing?.reason;
  if (isUnknown2 !== true) return reason2;
  return isReason(known) && known !== "UpToDate" && known !== "Updating" ? known : "WaitingForCapacity";
}
function passesInTime(reason2) {
  const { passes } = traitsOf(reason2);
  return passes === "capacity" || passes === "time";
}
function isExpected({ shown: reason2 }) {
  return passesInTime(reason2) || FOR_OTHERS.has(reason2);
}
function isExcluded({ shown: reason2 }) {
  return !passesInTime(reason2) && traitsOf(reason2).fleetWide !== true;
}
function reasonsOf(members2) {
  const found = members2.flatMap(({ progressing: progressing3, managedNode, phase: phase2 = "waiting", neverConnected }) => {
    const { reason: reason2 } = progressing3 ?? managedNode.shadow?.progressing ?? {};
    if (!isReason(reason2) || reason2 === "UpToDate" || reason2 === "Updating") return [];
    return { reason: reason2, phase: phase2, needsUser: neverConnected === true || traitsOf(reason2).needsAttention === true };
  });
  const count2 = (of) => new Map([...Map.groupBy(of, ({ reason: reason2 }) => reason2)].map(([reason2, nodes]) => [reason2, nodes.length]));
  return {
    reasons: count2(found),
    waitingReasons: count2(found.filter(({ phase: phase2 }) => phase2 === "waiting")),
    failedReasons: count2(found.filter(({ phase: phase2 }) => phase2 === "failed")),
    needAttention: count2(found.filter(({ needsUser }) => needsUser))
  };
}
var MINUTE_MS2 = 6e4;
var STEADY_MS = 5 * MINUTE_MS2;
function steady(before, at2, now) {
  if (at2 === void 0) return void 0;
  const known = parseTime(before);
  const stays = known !== void 0 && known > now && Math.abs(known - at2) <= Math.max(STEADY_MS, (at2 - now) / 5);
  return stays ? before : rfc3339(Math.ceil(at2 / MINUTE_MS2) * MINUTE_MS2);
}

// packages/controller/src/report/group-settings.ts
var MAX_LEFT = 100;
function groupSettingsOf(members2, { settings: settings2 }, { waiting: waiting3 }) {
  const known = members2.flatMap(({ managedNode: { name }, blocked: blocked3 }) => {
    const facts = settings2.get(name);
    return facts === void 0 || facts.state === "none" ? [] : [{ name, facts, blocked: blocked3 }];
  });
  const named4 = (applies) => known.filter(({ facts }) => applies(facts)).map(({ name }) => name);
  const withClass = (wanted) => named4(({ pending: pending2 }) => pending2.some((one) => one.class === wanted));
  const waits = waitsOf(known, waiting3);
  const messages = known.flatMap(({ facts }) => facts.message ?? []);
  const skipped = waits.filter(({ blocked: blocked3 }) => blocked3.reason === "Skipped").map(({ name }) => name);
  return {
    nodes: {
      inForce: named4(({ state: state2 }) => state2 === "inForce"),
      failed: named4(({ state: state2 }) => state2 === "failed"),
      conflicts: named4(({ conflicts }) => conflicts.length > 0),
      cannotUnset: named4(({ cannotUnset }) => cannotUnset.length > 0),
      rebooted: named4((facts) => facts.isRebooted && allowedAtReboot(facts) === "NeedsReboot"),
      skipped,
      Live: withClass("Live"),
      RestartsService: withClass("RestartsService"),
      NeedsReboot: withClass("NeedsReboot"),
      Refused: withClass("Refused")
    },
    members: known.length,
    left: leftOf(known.map(({ facts }) => facts)),
    waitsFor: waits.find(({ name }) => !skipped.includes(name))?.blocked.message ?? messages[0]
  };
}
function waitsOf(known, waiting3) {
  const named4 = (found) => known.flatMap((one) => {
    const blocked3 = found(one);
    return blocked3 === void 0 ? [] : [{ name: one.name, blocked: blocked3 }];
  });
  return [
    ...named4(({ name }) => waiting3.get(name)),
    ...named4(({ facts, blocked: blocked3 }) => allowedAtReboot(facts) === "NeedsReboot" ? blocked3 : void 0)
  ];
}
function leftOf(all) {
  const pending2 = all.flatMap((facts) => facts.pending);
  const byText = Map.groupBy(pending2, ({ key: key2, class: found, reason: reason2 }) => JSON.stringify([key2, found, reason2]));
  return [...byText.values()].flatMap((same2) => same2.slice(0, 1).map((one) => ({ ...one, nodes: same2.length }))).toSorted((a, b) => a.key < b.key ? -1 : 1).slice(0, MAX_LEFT);
}
var SETTINGS_REASONS = [
  "NoSettings",
  "SettingsInForce",
  "SettingsFailed",
  "SettingsRefused",
  "SettingsConflict",
  "ChangingSettings",
  "RebootPending",
  "CannotUnset"
];
function evaluateSettings({ nodes, members: members2, left, waitsFor }) {
  const isFalse2 = (reason2, message) => ({ status: "False", reason: reason2, message });
  const { inForce, failed: failed2, conflicts, cannotUnset, rebooted: rebooted2, Refused, NeedsReboot } = nodes;
  const refused = left.find((one) => one.class === "Refused");
  const others = members2 - inForce.length;
  const why = whyOthersWait(nodes.skipped, waitsFor);
  if (members2 === 0) return { status: "True", reason: "NoSettings", message: "The group sets nothing on its hosts" };
  if (failed2.length > 0) return isFalse2("SettingsFailed", describeFailed(failed2, cannotUnset));
  if (refused !== void 0)
    return isFalse2(
      "SettingsRefused",
      `${refused.key} cannot be set on ${namesOf(Refused)}, so none is: ${refused.reason}`
    );
  if (conflicts.length > 0) {
    const next = "remove them there, or set spec.settingsConflicts to Force";
    return isFalse2("SettingsConflict", `Users have set other values on ${namesOf(conflicts)}: ${next}`);
  }
  if (others > 0) {
    return isFalse2("ChangingSettings", `${inForce.length} of ${members2} hosts have the settings${why}`);
  }
  if (rebooted2.length > 0) {
    const next = "change spec.settings, or set spec.rollout.resume of the BrupopConfig to the current time to reboot again";
    return isFalse2(
      "RebootPending",
      `${namesOf(rebooted2)} rebooted for settings that their hosts still report as pending; ${next}`
    );
  }
  if (NeedsReboot.length > 0)
    return isFalse2("RebootPending", `Some settings need a drain and a reboot of ${namesOf(NeedsReboot)}${why}`);
  if (cannotUnset.length > 0) {
    const why2 = "their former value is unset or unknown, and the host API cannot remove a setting";
    const message = `Settings that are no longer requested stay on ${namesOf(cannotUnset)}: ${why2}`;
    return { status: "True", reason: "CannotUnset", message };
  }
  return { status: "True", reason: "SettingsInForce", message: `All ${members2} hosts have the settings` };
}
function describeFailed(failed2, cannotUnset) {
  const isLost = failed2.some((name) => cannotUnset.includes(name));
  const lost = isLost ? ", except for what had no value before" : "";
  const next = "change spec.settings, or set spec.rollout.resume of the BrupopConfig to the current time to try again";
  return `The settings failed on ${namesOf(failed2)}, of which the former ones are requested again${lost}; ${next}`;
}
function whyOthersWait(skipped, waitsFor) {
  const others = waitsFor === void 0 ? "" : `; the next one waits: ${waitsFor}`;
  if (skipped.length === 0) return others;
  return `${others}; skipped until a user removes the annotation ${SKIP_ANNOTATION}: ${namesOf(skipped)}`;
}
function describeSettings2(settings2) {
  const { reason: reason2, message } = evaluateSettings(settings2);
  return reason2 === "SettingsFailed" || reason2 === "SettingsRefused" ? [message] : [];
}

// packages/controller/src/report/metadata-condition.ts
var METADATA_REASONS = ["Applied", "Applying", "Conflict", "WriteRejected", "NoMetadata"];
function metadataApplied({ group: group2, metadata: metadata13 }) {
  const { pending: pending2, conflicts, rejected, waitsFor, changedBack = [] } = metadata13;
  if (rejected !== void 0) {
    const message2 = `The write of Node "${rejected.node}" is rejected: ${shorten(rejected.message, MAX_MESSAGE)}`;
    return { status: "False", reason: "WriteRejected", message: message2 };
  }
  if (conflicts.length > 0) return { status: "False", reason: "Conflict", message: describeConflicts(conflicts) };
  if (pending2.length > 0 || waitsFor !== void 0) {
    const waits = waitsFor === void 0 ? "" : `. Taints that evict pods are set node by node. Waiting: ${waitsFor}`;
    const message2 = `To be written: ${namesOf(pending2)}${describeChangedBack(changedBack)}${waits}`;
    return { status: "False", reason: "Applying", message: shorten(message2, MAX_MESSAGE) };
  }
  if (isEmpty(group2.rendered, true)) {
    const message2 = "The group has no labels, annotations and taints for its Nodes";
    return { status: "True", reason: "NoMetadata", message: message2 };
  }
  const message = "All Nodes of the group have its labels, annotations and taints";
  return { status: "True", reason: "Applied", message };
}
function describeChangedBack(nodes) {
  if (nodes.length === 0) return "";
  return `. Another writer changes these back again and again, so they are written less and less often: ${namesOf(nodes)}`;
}
function describeMetadata({ conflicts, rejected }) {
  const isFine = conflicts.length === 0 && rejected === void 0;
  return isFine ? [] : ["labels, annotations or taints are not applied, see the condition MetadataApplied"];
}
var MAX_CONFLICTS = 5;
var KINDS = { labels: "label", annotations: "annotation", taints: "taint" };
function describeConflicts(conflicts) {
  const list2 = conflicts.slice(0, MAX_CONFLICTS).map(({ node, field: field2, key: key2, manager }) => `the ${KINDS[field2]} "${key2}" of Node "${node}" is that of "${manager}"`);
  const more = conflicts.length > list2.length ? ` and ${conflicts.length - list2.length} more` : "";
  return `Another writer has set another value: ${list2.join(", ")}${more}. These stay, and everything else is applied. Take them out of spec.nodeMetadata, or set spec.nodeMetadata.conflicts to Force`;
}

// packages/controller/src/report/reconciliation.ts
var RETRIED = /* @__PURE__ */ new Set([
  "ChangingSettings",
  "AgentNotConnected",
  "Backoff",
  "CheckFailed",
  "HookFailed",
  "CleanupPending"
]);
function healthOf2({ status, reason: reason2, waitingFor }, neverConnected) {
  const { needsAttention = false, fleetWide = false } = traitsOf(reason2);
  const isFinal = reason2 === "CheckFailed" && waitingFor === reason2;
  if (neverConnected || isFinal || needsAttention && !fleetWide) return "Stalled";
  return status === "True" || RETRIED.has(reason2) ? "Reconciling" : "Ready";
}
function reconciliationOf({ unconfirmed: unconfirmed2, isMoving, stuck }, { generation, isConfirmed, isWritten }, needsUser) {
  if (needsUser !== void 0) return { Stalled: { ...needsUser, status: "True" } };
  if (isConfirmed) return {};
  const nodes = unconfirmed2.length === 0 ? "" : ` by ${namesOf(unconfirmed2)}`;
  const message = `Generation ${generation} is not confirmed yet${nodes}`;
  if (isMoving || !isWritten && stuck.size === 0)
    return { Reconciling: { status: "True", reason: "Applying", message } };
  if (stuck.size === 0) return {};
  const why = `${message}, of which need attention: ${countsByReason(stuck).join(", ")}`;
  return { Stalled: { status: "True", reason: "NodesNeedAttention", message: why } };
}
function groupNeedsUser(rollout2, ready3) {
  if (ready3.reason === "InvalidConfiguration") return ready3;
  const settings2 = evaluateSettings(rollout2.settings);
  if (["SettingsFailed", "SettingsRefused", "SettingsConflict"].includes(settings2.reason)) return settings2;
  const metadata13 = metadataApplied(rollout2);
  return metadata13.reason === "Conflict" || metadata13.reason === "WriteRejected" ? metadata13 : void 0;
}
var NEED_USER = [
  "InvalidConfiguration",
  "ProgressDeadlineExceeded",
  "TargetNotAllowed",
  "TargetLosesVolumes",
  "NamespaceNotAllowed"
];
function configNeedsUser(conditions2) {
  return conditions2.find(({ reason: reason2 }) => NEED_USER.includes(reason2));
}

// packages/controller/src/report/wait-events.ts
var SHADOW_EVENT_REASONS = ["Waiting", "WaitingEnded", "SettingsKept"];
var [WAITING2, ENDED, KEPT] = SHADOW_EVENT_REASONS;
var HOUR_MS3 = 36e5;
var NOT_TOLD = /* @__PURE__ */ new Set(["UpToDate", "Updating", "ChangingSettings", "DeadlineExceeded"]);
function waitEvent({ shadow: shadow2 }, { reason: reason2, message }, { isStalled, now }) {
  const ended = toldBefore(shadow2);
  const begins = isReported(reason2, isStalled);
  if (ended === (begins ? reason2 : "") || ended === reason2 && !begins) return void 0;
  return {
    reason: begins ? WAITING2 : ENDED,
    warning: begins && (traitsOf(reason2).needsAttention === true || reason2 === "AgentNotConnected"),
    about: shadowReference(shadow2),
    message: `${ended === "" ? "" : `No longer ${ended}. `}${reason2}: ${message}`,
    key: `${reason2}/${ended}/${Math.floor(now / HOUR_MS3)}`,
    isMinor: true
  };
}
function toldBefore({ progressing: progressing3, health }) {
  const before = progressing3?.reason;
  const wasStalled = health.some(({ type, status }) => type === "Stalled" && status === "True");
  return isReason(before) && isReported(before, wasStalled) ? before : "";
}
function keptEvent({ shadow: shadow2 }, { reason: reason2, message }, now) {
  const { cannotUnset = [] } = shadow2.status?.settings ?? {};
  if (reason2 !== "UpToDate" || cannotUnset.length === 0 || shadow2.progressing?.message === message) return void 0;
  const key2 = `${Math.floor(now / HOUR_MS3)}`;
  return { reason: KEPT, warning: true, about: shadowReference(shadow2), message, key: key2, isMinor: true };
}
function isReported(reason2, isStalled) {
  const { fleetWide = false, passes } = traitsOf(reason2);
  if (reason2 === "AgentNotConnected") return isStalled;
  return !NOT_TOLD.has(reason2) && !fleetWide && passes !== "capacity";
}

// packages/controller/src/report/node-conditions.ts
function nodeConditionsOf(decisions, { pods }, now) {
  const known = decisions.filter(
    ({ lookUp, blocked: blocked3, managedNode }) => blocked3?.isUnknown !== true && (lookUp !== true || pods.get(managedNode.name)?.problem !== void 0)
  );
  return known.flatMap((decision) => nodeCondition(decision, now) ?? []);
}
function nodeCondition({ managedNode, progressing: progressing3, change, neverConnected }, now) {
  if (progressing3 === void 0 || !isPair(managedNode)) return void 0;
  const deadline = change?.outcome === "Cancelled" ? void 0 : deadlineEvent(managedNode, progressing3);
  const { node, shadow: shadow2, group: group2 } = managedNode;
  const health = healthOf2(progressing3, neverConnected === true);
  const waits = waitEvent(managedNode, progressing3, { isStalled: health === "Stalled", now });
  const event2 = deadline ?? keptEvent(managedNode, progressing3, now) ?? waits;
  return { shadow: shadow2, node, ...withSuspects2(managedNode, progressing3, now), health, event: event2, group: group2?.name ?? "" };
}
function withSuspects2(pair, progressing3, now) {
  const found = suspectsOf(pair, new Moment(now));
  if (found.length === 0) return { progressing: progressing3 };
  const suspects = describeSuspects(found);
  return { progressing: { ...progressing3, message: `${progressing3.message}; ${suspects}` }, suspects };
}
function deadlineEvent({ node, shadow: shadow2 }, { reason: reason2, message }) {
  const { state: state2, state_transition_timestamp: since } = shadow2.spec;
  if (reason2 !== "DeadlineExceeded" || shadow2.progressing?.reason === reason2) return void 0;
  return eventOn(node, shadow2, { reason: reason2, message, key: `${shadow2.metadata.uid}/${state2}/${since ?? ""}` });
}
function withLoss(condition2, lost) {
  const found = lost.find(({ name }) => name === condition2.node.metadata.name);
  if (found === void 0) return condition2;
  const progressing3 = { ...condition2.progressing, message: found.message, waitingFor: "NodeLost" };
  return { ...condition2, progressing: progressing3, health: "Stalled" };
}

// packages/controller/src/report/progress.ts
function progressOf2(fleetState, all, group2) {
  const { now } = fleetState;
  const { before, policy, groups, counted } = group2 === void 0 ? fleetLane(fleetState, all) : { ...groupLane(fleetState, group2), counted: all };
  if (!counted.some(needsUpdate)) return void 0;
  const { lastProgressAt, countedMs, countedFrom } = recordOf3(before?.progress, latestSuccess(counted, now), now);
  const soFarMs = countedMs + (countedFrom === void 0 ? 0 : Math.max(0, now - countedFrom));
  const { progressDeadlineMs = Infinity, soakMs } = policy.rollout;
  const longestSoakMs = Math.max(soakMs, ...groups.flatMap((one) => [one.soakMs, one.policy.rollout.soakMs]));
  const limitMs2 = progressDeadlineMs + longestSoakMs;
  const isLate2 = soFarMs >= limitMs2;
  if (!mayProgress({ ...fleetState, policy }, counted, group2)) {
    return { lastProgressAt, countedMs: soFarMs, countedFrom: void 0, deadline: void 0, isLate: isLate2 };
  }
  const from = countedFrom ?? now;
  const deadline = isLate2 || limitMs2 === Infinity ? void 0 : from + limitMs2 - countedMs;
  return { lastProgressAt, countedMs, countedFrom: from, deadline, isLate: isLate2 };
}
function groupLane({ groupsBefore }, group2) {
  return { before: groupsBefore.get(group2.name), policy: group2.policy, groups: [group2] };
}
function fleetLane({ before, policy, groups }, all) {
  const counted = all.filter(({ managedNode }) => isOfFleet(managedNode.group));
  return { before, policy, groups: groups.filter(isOfFleet), counted };
}
function isOfFleet(group2) {
  return group2?.lanes.has("progress") !== true;
}
function needsUpdate(decision) {
  const { phase: phase2, candidate } = decision;
  if (phase2 === "updating") return true;
  const { isIntended = false, fleetWide = false } = traitsFor(decision);
  return (candidate !== void 0 || phase2 === "failed") && (fleetWide || !isIntended);
}
function recordOf3(before, succeededAt, now) {
  const lastProgressAt = parseTime(before?.lastProgressTime);
  if (before === void 0 || lastProgressAt === void 0 || lastProgressAt > now) {
    return { lastProgressAt: now, countedMs: 0, countedFrom: void 0 };
  }
  if (succeededAt > lastProgressAt) return { lastProgressAt: succeededAt, countedMs: 0, countedFrom: succeededAt };
  return { lastProgressAt, countedMs: before.countedSeconds * 1e3, countedFrom: parseTime(before.countedFrom) };
}
function latestSuccess(counted, now) {
  const times = counted.map(({ managedNode: { shadow: shadow2 } }) => {
    const { version: version3 = "" } = shadow2?.record.succeeded ?? {};
    const time2 = shadow2?.times.succeededAt ?? 0;
    return shadow2 === void 0 || time2 > now || isPrevious(shadow2, version3) ? 0 : time2;
  });
  return times.reduce((a, b) => Math.max(a, b), 0);
}
function mayProgress({ policy, stale, clockSkewMs, connectivity, now }, counted, group2) {
  const isUncertain = stale.length > 0 || connectivity.lost || isClockWrong(clockSkewMs);
  const isStopped = policy.paused || policy.problem !== void 0 || isUncertain;
  if (isStopped) return false;
  const waiting3 = counted.filter(needsUpdate);
  const others = waiting3.filter(({ blocked: blocked3 }) => blocked3?.reason !== "WaitingForNodeGroup");
  const asked = others.length > 0 || group2 !== void 0 ? others : waiting3;
  const byPolicy = Map.groupBy(asked, ({ managedNode }) => managedNode.policy);
  return [...byPolicy].some(([{ calendar }, nodes]) => calendar.at(now).open && areFree(nodes));
}
function areFree(nodes) {
  if (nodes.some(({ phase: phase2 }) => phase2 === "updating")) return true;
  return !nodes.some((decision) => traitsFor(decision).fleetWide === true && traitsFor(decision).isIntended === true);
}
function traitsFor({ progressing: progressing3, managedNode }) {
  const { reason: reason2 } = progressing3 ?? managedNode.shadow?.progressing ?? {};
  return isReason(reason2) ? traitsOf(reason2) : { passes: "event" };
}

// packages/controller/src/report/rollouts.ts
function releasesOf(decisions) {
  const found = /* @__PURE__ */ new Map();
  for (const decision of decisions) countIn(decision, releaseIn(found, decision));
  return [...found.values()];
}
function releaseIn(found, { managedNode }) {
  const group2 = managedNode.group?.name;
  return (text6) => {
    const version3 = releaseOf(text6);
    const key2 = `${version3}/${group2 ?? ""}`;
    const known = found.get(key2);
    if (known !== void 0) return known;
    const release3 = { version: version3, group: group2, updating: 0, waiting: 0, succeeded: [], failed: [] };
    found.set(key2, release3);
    return release3;
  };
}
function countIn(decision, of) {
  const { shadow: shadow2 } = decision.managedNode;
  if (shadow2 === void 0) return;
  const next = nextOf(decision, shadow2);
  if (next !== void 0) of(next).updating += 1;
  else countWaiting(decision, shadow2, of);
  const { updated: updated2, record: record9 } = shadow2;
  if (updated2 !== void 0) of(updated2.version).succeeded.push(updated2.at);
  const failedAt2 = parseTime(record9.failed?.at);
  if (record9.failed !== void 0 && failedAt2 !== void 0) of(record9.failed.version).failed.push(failedAt2);
}
function nextOf({ change }, { spec, purpose, status }) {
  if (purpose === "Update") return spec.version ?? void 0;
  const started3 = change?.outcome === "Started" ? change.spec.version : void 0;
  return sameVersion(started3, status?.current_version) ? void 0 : started3 ?? void 0;
}
function countWaiting({ phase: phase2 }, { status }, of) {
  const { target_version: target = "", current_version: current = "" } = status ?? {};
  if (phase2 === "waiting" && target !== "" && !sameVersion(target, current)) of(target).waiting += 1;
}
function rolloutsOf(before, releases, edits, now) {
  const known = readRollouts(before?.rollouts);
  const begun = releases.filter(({ updating: updating2 }) => updating2 > 0).filter((one) => !known.some((old) => isOf2(old, one)));
  const all = [...begun.map((one) => started2(one, now)), ...known];
  const rollouts = all.slice(0, MAX_ROLLOUTS).map(
    (one) => continued(
      one,
      releases.find((release3) => isOf2(one, release3)),
      edits,
      now
    )
  );
  return rollouts.length === 0 ? {} : { rollouts };
}
function isOf2(rollout2, release3) {
  return rollout2.group === release3.group && rollout2.version === release3.version;
}
function started2({ version: version3, group: group2 }, now) {
  return { version: version3, ...group2 !== void 0 && { group: group2 }, startTime: rfc3339(now), nodes: 0, failures: 0 };
}
function continued(rollout2, release3, edits, now) {
  const { endTime, nodes, failures: failures2, ...kept } = rollout2;
  const { updating: updating2, waiting: waiting3, succeeded: succeeded2, failed: failed2 } = release3 ?? NO_NODES;
  const isOpen2 = updating2 > 0 || endTime === void 0 && waiting3 > 0;
  if (!isOpen2 && endTime !== void 0) return rollout2;
  const start = parseTime(rollout2.startTime) ?? now;
  const changes = changesOf2(rollout2, edits, start);
  return {
    ...kept,
    ...!isOpen2 && { endTime: rfc3339(now) },
    nodes: Math.max(nodes, countSince(start, succeeded2)),
    failures: Math.max(failures2, countSince(start, failed2)),
    ...changes.length > 0 && { changes }
  };
}
var NO_NODES = { updating: 0, waiting: 0, succeeded: [], failed: [] };
function countSince(start, times) {
  return times.filter((at2) => at2 >= start).length;
}
function changesOf2({ group: group2, changes = [] }, edits, start) {
  const isKnown2 = (object3, { manager, time: time2 }) => changes.some((one) => one.object === object3 && one.manager === manager && one.time === time2);
  const added = edits.filter((one) => (one.group === void 0 || one.group === group2) && (parseTime(one.time) ?? 0) >= start).map(({ group: of, ...edit }) => ({ object: objectOf(of), ...edit })).filter(({ object: object3, ...edit }) => !isKnown2(object3, edit));
  return [...added, ...changes].toSorted((a, b) => a.time < b.time ? 1 : -1).slice(0, MAX_CHANGES);
}

// packages/controller/src/upkeep/metadata-writes.ts
function decideMetadata(input) {
  const { state: state2, wanted } = input;
  const conflicts = keyConflicts(input);
  const taints = decideTaints(input);
  const former2 = state2.applied.filter(({ group: group2 }) => group2 !== wanted?.group).flatMap((applied2) => release2(input, applied2));
  const writes = [...adopt(input), ...applyWanted(input, conflicts), ...former2, ...taints.writes];
  return { writes, conflicts: [...conflicts, ...taints.conflicts] };
}
function adopt({ state: state2, known }) {
  const record9 = readKeysRecord(state2.annotations);
  const keys4 = record9 && known.get(record9.group);
  if (record9 === void 0 || keys4 === void 0) return [];
  if (state2.applied.some(({ group: group3 }) => group3 === record9.group)) return [];
  const given = (field2) => [...new Set(record9[field2])].filter((key2) => keys4[field2].has(key2));
  const [labels, annotations] = [given("labels"), given("annotations")];
  const { group: group2 } = record9;
  return [
    { kind: "Adopt", groups: [group2], keys: { group: group2, labels, annotations: [...annotations, GROUP_KEYS_ANNOTATION] } }
  ];
}
var FIELDS2 = ["labels", "annotations"];
function keyConflicts({ state: state2, wanted, otherOwner }) {
  if (wanted === void 0 || wanted.rendered.conflicts === "Force") return [];
  return FIELDS2.flatMap(
    (field2) => Object.entries(wanted.rendered[field2]).flatMap(([key2, value2]) => {
      const [found, manager] = [state2[field2][key2], otherOwner(field2, key2)];
      if (manager === void 0 || found === void 0 || found === value2) return [];
      return [{ field: field2, key: key2, found, manager }];
    })
  );
}
function applyWanted(input, conflicts) {
  const { state: state2, wanted, known, otherOwner } = input;
  if (wanted === void 0) return [];
  const { group: group2, rendered } = wanted;
  const applied2 = state2.applied.find((one) => one.group === group2);
  const given = (field2) => Object.entries(rendered[field2]).filter(([key2]) => !conflicts.some((one) => one.field === field2 && one.key === key2));
  const [labels, annotations] = [given("labels"), given("annotations")];
  if (labels.length + annotations.length === 0) return applied2 === void 0 ? [] : release2(input, applied2);
  const own2 = (field2, entries2) => entries2.map(([key2]) => key2).filter((key2) => otherOwner(field2, key2) === void 0);
  const record9 = keysRecord({ group: group2, labels: own2("labels", labels), annotations: own2("annotations", annotations) });
  const kept = unknownKeys(input, applied2, known.get(group2));
  const body = {
    labels: { ...kept.labels, ...Object.fromEntries(labels) },
    annotations: { ...kept.annotations, ...Object.fromEntries(annotations), [GROUP_KEYS_ANNOTATION]: record9 }
  };
  const isInPlace = applied2 !== void 0 && FIELDS2.every((field2) => hasApplied(applied2[field2], body[field2], state2[field2]));
  return isInPlace ? [] : [{ kind: "Apply", groups: [group2], body }];
}
function hasApplied(keys4, wanted, found) {
  const names = Object.keys(wanted);
  const applied2 = new Set(keys4);
  return names.length === keys4.length && names.every((key2) => applied2.has(key2) && (key2 === GROUP_KEYS_ANNOTATION || found[key2] === wanted[key2]));
}
function release2(input, applied2) {
  const keys4 = input.known.get(applied2.group);
  if (keys4 === void 0) return [];
  const body = unknownKeys(input, applied2, keys4);
  const isReleased = FIELDS2.every((field2) => Object.keys(body[field2]).length === applied2[field2].length);
  return isReleased ? [] : [{ kind: "Apply", groups: [applied2.group], body }];
}
function unknownKeys({ state: state2 }, applied2, known) {
  const of = (field2) => {
    const keys4 = (applied2?.[field2] ?? []).filter((key2) => key2 !== GROUP_KEYS_ANNOTATION && !known?.[field2].has(key2));
    return Object.fromEntries(
      keys4.flatMap((key2) => state2[field2][key2] === void 0 ? [] : [[key2, state2[field2][key2]]])
    );
  };
  return { labels: of("labels"), annotations: of("annotations") };
}
function decideTaints(input) {
  const { state: state2, wanted, known } = input;
  const found = new Map(state2.taints.map((taint2) => [taintId(taint2), taint2]));
  const records = readTaintsRecord(state2.annotations).filter((one) => known.get(one.group)?.taints.has(taintId(one)));
  const owned = new Set(records.filter((one) => (found.get(taintId(one))?.value ?? "") === one.value).map(taintId));
  const given = givenTaints(wanted, found, owned);
  const ours = given.filter(({ isOurs }) => isOurs).map(({ taint: taint2 }) => taint2);
  const replaced = /* @__PURE__ */ new Set([...owned, ...ours.map(taintId)]);
  const taints = [...state2.taints.filter((taint2) => !replaced.has(taintId(taint2))), ...ours];
  const record9 = taintsRecord(ours.map((taint2) => ({ group: wanted?.group ?? "", ...taint2 })));
  const isInPlace = areSame(taints, state2.taints) && record9 === (state2.annotations[GROUP_TAINTS_ANNOTATION] ?? null);
  const groups = [.../* @__PURE__ */ new Set([...wanted === void 0 ? [] : [wanted.group], ...records.map((one) => one.group)])];
  return {
    writes: isInPlace || groups.length === 0 ? [] : [{ kind: "Taints", groups, taints, record: record9 }],
    conflicts: given.filter(({ isConflict }) => isConflict).map(({ taint: taint2 }) => taintConflict(input, taint2, found))
  };
}
function givenTaints(wanted, found, owned) {
  const isForced = wanted?.rendered.conflicts === "Force";
  return (wanted?.rendered.taints ?? []).map((taint2) => {
    const there = found.get(taintId(taint2));
    if (there === void 0 || owned.has(taintId(taint2))) return { taint: taint2, isConflict: false, isOurs: true };
    const isOther = (there.value ?? "") !== taint2.value;
    return { taint: taint2, isConflict: isOther && !isForced, isOurs: isOther && isForced };
  });
}
function taintConflict({ otherOwner }, taint2, found) {
  const key2 = taintId(taint2);
  return {
    field: "taints",
    key: key2,
    found: found.get(key2)?.value ?? "",
    manager: otherOwner("taints", key2) ?? "another writer"
  };
}
function areSame(a, b) {
  return textOf2(a) === textOf2(b);
}
function textOf2(taints) {
  const each = taints.map(({ key: key2, value: value2 = "", effect }) => `${key2}=${value2}:${effect}`);
  return each.toSorted().join();
}

// packages/controller/src/upkeep/node-metadata.ts
var NO_METADATA = { isRecorded: false, pending: [], conflicts: [], rejected: void 0 };
var REMOVAL_LIMIT_MS = 10 * 6e4;
function nodeMetadataOf(snapshot, isCurrent, now) {
  const { nodes, groups, groupObjects, managedNodes, metadataNotes } = snapshot;
  const known = new Map(groupObjects.map(({ metadata: metadata13, status }) => [metadata13.name, knownKeys(readRendered(status))]));
  const wantedBy = wantedOf(groupObjects);
  const byName5 = new Map(wantedBy.size === 0 ? [] : managedNodes.map((one) => [one.name, one]));
  const evaluated = nodes.flatMap((node) => {
    const wanted = wantedFor(node, byName5.get(node.metadata.name), wantedBy) ?? keptFor(node, groups, wantedBy);
    const isConcerned = node.metadata.deletionTimestamp === void 0 && (wanted !== void 0 || hasGroupMetadata(node));
    return isConcerned ? [evaluate(node, { wanted, known }, metadataNotes.get(node.metadata.uid), now)] : [];
  });
  const byGroup = new Map(groupObjects.map((object3) => [object3.metadata.name, metadataOf(object3, evaluated)]));
  const finalizers = finalizersOf(snapshot, byGroup, now);
  const isLeft = (group2) => (byGroup.get(group2.metadata.name)?.pending.length ?? 0) > 0;
  const given = new Set(evaluated.filter(hasAll).map(({ change }) => change.wanted?.group));
  const due = evaluated.filter(({ isDue }) => isDue).map(({ change }) => change);
  return {
    changes: isCurrent ? due.map((one) => ({ ...one, isOnOthers: given.has(one.wanted?.group) })) : [],
    byGroup,
    finalizers: isCurrent ? finalizers : /* @__PURE__ */ new Map(),
    leftBehind: new Map(
      [...finalizers].filter(([group2, change]) => change === "Remove" && isLeft(group2)).map(([group2]) => [group2, byGroup.get(group2.metadata.name)?.pending ?? []])
    ),
    times: [
      ...evaluated.map(({ note, conflicts }) => conflicts.length > 0 ? note?.checkAt : void 0),
      ...groupObjects.map(({ metadata: metadata13 }) => removalEnds(metadata13.deletionTimestamp))
    ]
  };
}
function hasAll({ change: { groups, wanted }, conflicts }) {
  return wanted !== void 0 && groups.length === 0 && conflicts.length === 0;
}
function wantedOf(groups) {
  return new Map(
    groups.flatMap(({ metadata: { name, deletionTimestamp, finalizers = [] }, status }) => {
      const rendered = readRendered(status);
      const isWanted2 = deletionTimestamp === void 0 && finalizers.includes(NODE_METADATA_FINALIZER);
      return isWanted2 && rendered !== void 0 ? [[name, { group: name, rendered }]] : [];
    })
  );
}
function wantedFor(node, managedNode, wantedBy) {
  const group2 = managedNode?.group?.name;
  return group2 !== void 0 && isManaged(node) ? wantedBy.get(group2) : void 0;
}
function keptFor(node, groups, wantedBy) {
  if (isManaged(node) || !hasGroupMetadata(node)) return void 0;
  const { labels: found = {} } = node.metadata;
  const wanted = wantedBy.get(groupOf(found, groups, void 0)?.name ?? "");
  if (wanted === void 0) return void 0;
  const { group: group2, rendered } = wanted;
  const kept = Object.entries(rendered.labels).filter(([key2]) => isProtectedLabel(key2) && found[key2] !== void 0);
  const taints = rendered.taints.filter((taint2) => node.taints.some((one) => isSameTaint(one, taint2)));
  return { group: group2, rendered: { ...rendered, labels: Object.fromEntries(kept), annotations: {}, taints } };
}
function evaluate(node, { wanted, known }, note, now) {
  const { labels = {}, annotations = {} } = node.metadata;
  const noted = (note?.conflicts ?? []).filter(({ field: field2, key: key2, found }) => field2 !== "labels" || labels[key2] === found);
  const foreign = noted.filter(({ field: field2 }) => field2 === "annotations").map(({ key: key2, found }) => [key2, found]);
  const shown = { ...annotations, ...Object.fromEntries(foreign) };
  const state2 = { labels, annotations: shown, taints: node.taints, applied: node.applied };
  const owner = (field2, key2) => noted.find((one) => one.field === field2 && one.key === key2)?.manager;
  const { writes, conflicts } = decideMetadata({ state: state2, wanted, known, otherOwner: owner });
  const groups = [...new Set(writes.flatMap((write) => write.groups))];
  const isDue = writes.length > 0 || conflicts.length > 0 && (note === void 0 || note.checkAt <= now);
  const isNew = (taint2) => taint2.effect === "NoExecute" && !node.taints.some((one) => isSameTaint(one, taint2));
  const evicts = writes.some((write) => write.kind === "Taints" && write.taints.some(isNew));
  const [isRejected, isChangedBack] = [note?.rejection !== void 0, note?.isChangedBack === true];
  return { change: { node, wanted, known, groups, evicts, isRejected, isChangedBack }, conflicts, isDue, note };
}
function metadataOf({ metadata: metadata13, status }, evaluated) {
  const { name: group2, generation, finalizers = [] } = metadata13;
  const rendered = readRendered(status);
  const isHeld = finalizers.includes(NODE_METADATA_FINALIZER) || isEmpty(rendered, true);
  const pending2 = evaluated.filter(({ change }) => change.groups.includes(group2));
  const rejected = pending2.find(({ note }) => note?.rejection !== void 0);
  const changedBack = pending2.filter(({ change }) => change.isChangedBack);
  return {
    isRecorded: rendered?.generation === generation && isHeld,
    pending: pending2.map(({ change }) => change.node.metadata.name),
    conflicts: evaluated.filter(({ change }) => change.wanted?.group === group2).flatMap(({ change, conflicts }) => conflicts.map((one) => ({ ...one, node: change.node.metadata.name }))),
    changedBack: changedBack.map(({ change }) => change.node.metadata.name),
    rejected: rejected && { node: rejected.change.node.metadata.name, message: rejected.note?.rejection ?? "" }
  };
}
function finalizersOf({ groupObjects, clockSkewMs }, byGroup, now) {
  const isNeeded = ({ metadata: metadata13, status }) => {
    const isPending = (byGroup.get(metadata13.name)?.pending.length ?? 0) > 0;
    const ends = removalEnds(metadata13.deletionTimestamp);
    if (ends !== void 0) return isPending && (now < ends || isClockWrong(clockSkewMs));
    return isPending || !isEmpty(readRendered(status), status?.confirmedGeneration === metadata13.generation);
  };
  return new Map(
    groupObjects.flatMap((object3) => {
      const { finalizers = [], deletionTimestamp } = object3.metadata;
      const [has, needs] = [finalizers.includes(NODE_METADATA_FINALIZER), isNeeded(object3)];
      if (has === needs || needs && deletionTimestamp !== void 0) return [];
      return [[object3, needs ? "Add" : "Remove"]];
    })
  );
}
function removalEnds(deletionTimestamp) {
  const deletedAt = parseTime(deletionTimestamp);
  return deletedAt === void 0 ? void 0 : deletedAt + REMOVAL_LIMIT_MS;
}

// packages/controller/src/report/rollout.ts
function unconfirmedOf(decisions, { waiting: waiting3 }) {
  const pending2 = decisions.filter((decision) => decision.pending === true);
  const paces = new Set(pending2.map((decision) => paceOf(decision, waiting3)));
  const stuck = /* @__PURE__ */ new Map();
  for (const decision of pending2) {
    const reason2 = reasonOf(decision, waiting3);
    if (reason2 !== void 0 && paceOf(decision, waiting3) === "stuck") stuck.set(reason2, (stuck.get(reason2) ?? 0) + 1);
  }
  return {
    unconfirmed: pending2.map(({ managedNode: { name } }) => name),
    isMoving: paces.has("moves"),
    stuck
  };
}
var MOVING = /* @__PURE__ */ new Set([
  "Updating",
  "ChangingSettings",
  "AgentNotConnected",
  "WatchStale",
  "ConnectivityLost"
]);
function paceOf(decision, waiting3) {
  const { change, phase: phase2 } = decision;
  const isUnknown2 = blockOf2(decision, waiting3)?.isUnknown === true;
  if (change !== void 0 || phase2 === "updating" || isUnknown2) return "moves";
  return paceWith(reasonOf(decision, waiting3));
}
function reasonOf(decision, waiting3) {
  return blockOf2(decision, waiting3)?.reason ?? decision.progressing?.reason;
}
function blockOf2({ managedNode, grant: grant2, blocked: blocked3 }, waiting3) {
  return waiting3.get(managedNode.name) ?? (grant2 === void 0 ? blocked3 : void 0);
}
function paceWith(reason2) {
  if (reason2 === void 0) return "moves";
  const { passes, needsAttention } = traitsOf(reason2);
  if (passes === "capacity" || MOVING.has(reason2)) return "moves";
  return needsAttention === true ? "stuck" : "waits";
}
function countsOf(decisions) {
  const counts2 = { managed: decisions.length, upToDate: 0, updating: 0, waiting: 0, failed: 0 };
  for (const { phase: phase2 = "waiting" } of decisions) counts2[phase2] += 1;
  return counts2;
}
var NO_FREEZE = { failed: [], frozen: [] };
function groupRollouts(fleetState, counted, {
  forecast,
  stuckNodes,
  lost,
  grants,
  metadata: metadata13
}) {
  const { groups, groupOrder, groupFreezes: groupFreezes2, canaries } = fleetState;
  const byGroup = Map.groupBy(counted, ({ managedNode }) => managedNode.group?.name);
  return groups.flatMap((group2) => {
    const { policy } = group2;
    const members2 = byGroup.get(group2.name) ?? [];
    const names = new Set(members2.map(({ managedNode: { name } }) => name));
    const own2 = forecast.ofGroups.get(group2.name);
    if (own2 === void 0) return [];
    return {
      group: group2,
      waitsFor: groupOrder.waitsFor(group2.name),
      settings: groupSettingsOf(members2, fleetState, grants),
      policy,
      counts: countsOf(members2),
      ...unconfirmedOf(members2, grants),
      metadata: metadata13.byGroup.get(group2.name) ?? NO_METADATA,
      fleetFrozen: fleetState.frozen,
      ...groupFreezes2.get(group2.name) ?? NO_FREEZE,
      canaries: canaries.completed(group2.name),
      progress: group2.lanes.has("progress") ? progressOf2(fleetState, members2, group2) : void 0,
      forecast: own2,
      stuckNodes: stuckNodes.filter((name) => names.has(name)),
      lost: lost.filter(({ name }) => names.has(name))
    };
  });
}

// packages/controller/src/report/report.ts
function reportOf({ fleetState, decisions, admitted, grants }, { lost, metadata: metadata13 }, snapshot) {
  const { policy, stale, connectivity, clockSkewMs, stuck, failed: failed2, frozen: frozen2, canaries, orphaned, now } = fleetState;
  const { holds, suspects } = fleetState.observation;
  const counted = decisions.filter(({ managedNode: { node } }) => node !== void 0 && isSelected(node, policy));
  const forecast = forecastOf(fleetState, counted, admitted);
  const stuckNodes = stuck.map(({ metadata: { name } }) => name);
  return {
    conditions: nodeConditionsOf(decisions, snapshot, now).map((one) => withLoss(one, lost)),
    policy,
    stale,
    connectivity,
    clockSkewMs,
    counts: countsOf(counted),
    failed: failed2,
    frozen: frozen2,
    canaries: canaries.completed(),
    holds,
    suspects,
    forecast,
    progress: progressOf2(fleetState, counted),
    stuckNodes,
    groups: groupRollouts(fleetState, counted, { forecast, stuckNodes, lost, grants, metadata: metadata13 }),
    releases: releasesOf(counted),
    edits: editsIn(snapshot),
    orphanedNodes: orphaned,
    lost,
    ...unconfirmedOf(counted, grants)
  };
}
function editsIn({ config, groupObjects }) {
  return [...namedEdits(config?.edits), ...groupObjects.flatMap((one) => namedEdits(one.edits, one.metadata.name))];
}
function namedEdits(edits = [], group2) {
  return edits.map((edit) => ({ ...edit, group: group2 }));
}

// packages/controller/src/upkeep/cleanup.ts
var GARBAGE_COLLECTION_MS = 6e4;
var AGENT_RESTORES_MS = 3e4;
var LAST_PASS_MS = 6e4;
function cleanupOf(managedNode, now) {
  const { node, shadow: shadow2, missingSince } = managedNode;
  if (node === void 0) return { managedNode, kind: "DeleteShadow", dueAt: missingSince + GARBAGE_COLLECTION_MS };
  if (shadow2 !== void 0 && !isOwnedBy(shadow2, node)) return { managedNode, kind: "DeleteShadow", dueAt: now.ms };
  if (shadow2 !== void 0 && shadow2.spec.state !== "Idle") return void 0;
  if (orphanedAnnotations(node).length > 0) return { managedNode, kind: "PruneAnnotations", dueAt: now.ms };
  const safeAt = rebootUntil(managedNode, now) ?? 0;
  const event2 = restoredEvent(managedNode);
  if (!isManaged(node))
    return { managedNode, kind: "Unmanage", dueAt: Math.max(now.ms, safeAt), event: event2, kept: keptEvent2(managedNode) };
  if (event2 === void 0) return void 0;
  const restoresUntil = Math.max(agentRestoresUntil(managedNode, now), safeAt);
  return { managedNode, event: event2, ...leftover(managedNode, restoresUntil, now) };
}
function agentRestoresUntil({ node, shadow: shadow2, missingSince }, now) {
  const endedAt = shadow2 === void 0 ? missingSince : stateSince(shadow2, now) ?? 0;
  const setAt = (node && ownedSince(node, now)) ?? 0;
  return Math.min(setAt, endedAt + LAST_PASS_MS) + AGENT_RESTORES_MS;
}
function leftover({ shadow: shadow2, missingSince }, restoresUntil, now) {
  if (shadow2?.status !== void 0 && !isSettled(shadow2))
    return { kind: "RestoreAfterAgentExit", dueAt: Math.max(notRespondingAt(shadow2, now), restoresUntil) };
  const idleSince2 = shadow2 === void 0 ? missingSince : stateSince(shadow2, now) ?? 0;
  return { kind: "Restore", dueAt: Math.max(idleSince2 + AGENT_RESTORES_MS, restoresUntil) };
}
function restoredEvent({ node, shadow: shadow2 }) {
  if (node === void 0 || !ownedByUs(node)) return void 0;
  const message = "Restored the Node: removed a cordon or load balancer exclusion of the operator that no agent removed";
  return eventOn(node, shadow2, { reason: "Restored", message, key: node.metadata.resourceVersion });
}
function keptEvent2({ node, shadow: shadow2 }) {
  const records = shadow2?.status?.settings?.records ?? [];
  const keys4 = records.map(({ key: key2 }) => key2);
  if (node === void 0 || shadow2 === void 0 || keys4.length === 0) return void 0;
  const unknown7 = records.filter(({ before }) => before === void 0).map(({ key: key2 }) => key2);
  const unsure = unknown7.length === 0 ? "" : `The host may have had the same value of ${namesOf(unknown7)} before. `;
  const message = `The label was removed, and the host keeps settings that the operator wrote, since no agent restored them: ${namesOf(keys4)}. ${unsure}Set them on the host, such as with apiclient set updates.version-lock=latest`;
  return eventOn(node, shadow2, { reason: "HostSettingsKept", message, key: shadow2.metadata.uid });
}

// packages/controller/src/upkeep/evicting-taints.ts
var UNREADY_COUNTS_MS = 10 * 6e4;
var MAX_OFF = 2;
var GATES2 = [watchFresh, clockRight, connected, paused, validConfig, notSkipped, windowOpen];
var EVICTION_MS = 5 * 6e4;
function withoutEvictions(metadata13, fleetState, managedNodes) {
  const { now } = fleetState;
  if (!metadata13.changes.some(({ evicts }) => evicts)) return metadata13;
  const byName5 = new Map(managedNodes.map((one) => [one.name, one]));
  const taintedOf = /* @__PURE__ */ new Map();
  const waiting3 = /* @__PURE__ */ new Map();
  const lookUps = [];
  const times = [];
  const changes = metadata13.changes.toSorted(inOrder3).filter(({ evicts, node, wanted }) => {
    const managedNode = byName5.get(node.metadata.name);
    if (!evicts || managedNode === void 0 || wanted === void 0) return true;
    const tainted2 = taintedOf.get(wanted.group) ?? taintedIn(managedNodes, wanted, now);
    taintedOf.set(wanted.group, tainted2);
    const blocked3 = whyNot2({ managedNode, node }, tainted2, fleetState);
    if (blocked3 === void 0) {
      fleetState.capacity.reserve({ node, group: managedNode.group }, true);
      fleetState.controlPlane.starts(node);
      fleetState.quorums.starts(node);
      tainted2.names.push(managedNode.name);
      return true;
    }
    if (blocked3.lookUp === true) lookUps.push(node);
    if (blocked3.isUnknown !== true && !waiting3.has(wanted.group))
      waiting3.set(wanted.group, `${node.metadata.name}: ${blocked3.message}`);
    times.push(blocked3.retryAt);
    return false;
  });
  const byGroup = new Map(
    [...metadata13.byGroup].map(([name, found]) => [name, { ...found, waitsFor: waiting3.get(name) }])
  );
  return { ...metadata13, changes, byGroup, lookUps, times: [...metadata13.times, ...times] };
}
function inOrder3(a, b) {
  const byName5 = a.node.metadata.name < b.node.metadata.name ? -1 : 1;
  const byKept = Number(a.isRejected || a.isChangedBack) - Number(b.isRejected || b.isChangedBack);
  return byKept || Number(b.node.ready) - Number(a.node.ready) || byName5;
}
function whyNot2({ managedNode, node }, tainted2, fleetState) {
  const { group: group2, policy } = managedNode;
  const isUpdating = fleetState.slots.has(managedNode);
  return firstOf(GATES2, { ...fleetState, ...managedNode, node, policy, needMs: EVICTION_MS }) ?? (isUpdating ? { message: "It is updating" } : void 0) ?? whyNotMore(tainted2) ?? fleetState.controlPlane.whyNotStarted({ node, policy }) ?? fleetState.capacity.check({ node, group: group2 }) ?? quorumKeptOtherwise(fleetState, node, policy);
}
function taintedIn(managedNodes, { group: group2, rendered }, now) {
  const isOlder = ({ evictedSince = -Infinity }, ms) => now - evictedSince >= ms;
  const isOff2 = (one) => one.node?.ready === false && isOlder(one, UNREADY_COUNTS_MS);
  const all = managedNodes.filter(({ group: of, node }) => {
    if (of?.name !== group2 || node === void 0 || skippedBy(node) !== void 0) return false;
    return hasTaints(node, rendered);
  });
  const tainted2 = all.filter((one) => !isOff2(one));
  return {
    off: all.filter(isOff2).map(({ name }) => name),
    names: tainted2.map(({ name }) => name),
    unready: tainted2.filter(({ node }) => node?.ready === false).map(({ name }) => name),
    isProved: tainted2.some((one) => one.node?.ready === true && isOlder(one, TAINT_PROVING_MS))
  };
}
function whyNotMore({ off, names, unready, isProved: isProved2 }) {
  if (unready.length > 0) return { message: `${namesOf(unready)} got its taints that evict pods, and is not Ready` };
  if (isProved2) return void 0;
  if (off.length >= MAX_OFF) {
    const message = `${namesOf(off)} got its taints that evict pods first, and have not been Ready since; if the taints are not the cause, leave them out with the annotation ${SKIP_ANNOTATION}`;
    return { message };
  }
  if (names.length === 0) return void 0;
  const first = namesOf(names);
  return { message: `${first} gets its taints that evict pods first, and has to be Ready with them for a minute` };
}
function hasTaints({ taints }, rendered) {
  const evicting = rendered.taints.filter(({ effect }) => effect === "NoExecute");
  return evicting.every((one) => taints.some((found) => isSameTaint(found, one)));
}

// packages/controller/src/upkeep/lost-nodes.ts
function lostNodesOf(managedNodes, { policy, stale, connectivity, moment: now }) {
  const isKnown2 = (node) => stale.length === 0 && !lossOf(connectivity, node).lost;
  const away = managedNodes.filter((one) => one.shadow?.state === "Away").filter(isPair);
  const counted = away.filter(({ node }) => isManaged(node) && isKnown2(node));
  const times = new Map(counted.map((pair) => [pair, lostAt(pair, policy, now)]));
  const lost = counted.filter((one) => now.reached(times.get(one) ?? Infinity));
  const isLost = new Set(lost);
  return {
    lost: lost.map(lostNode),
    outOfService: managedNodes.flatMap((one) => outOfServiceChange(one, isLost.has(one), policy) ?? []),
    lostTimes: [...times.values()]
  };
}
function lostNode({ name, node, shadow: shadow2 }) {
  const { uid, generation = 0 } = shadow2.metadata;
  const message = `The node is lost: it was drained, its host was asked to reboot into ${shadow2.spec.version ?? "?"}, and its kubelet and agent have not reported since ${node.readySince === void 0 ? "?" : rfc3339(node.readySince)}. Look at the host. The node holds its update slot, and continues when it comes back; if the host is gone: kubectl delete node ${name}`;
  return { name, message, event: eventOn(node, shadow2, { reason: "NodeLost", message, key: `${uid}/${generation}` }) };
}
function describeLost(lost) {
  return lost.length === 0 ? [] : [`lost in the reboot of their update: ${namesOf(lost.map(({ name }) => name))}`];
}
function outOfServiceChange(managedNode, isLost, { lostNode: { action } }) {
  const { node, shadow: shadow2 } = managedNode;
  if (node === void 0) return void 0;
  const isAsked = action === "OutOfServiceTaint" && isManaged(node);
  const key2 = node.metadata.resourceVersion;
  if (outOfServiceByUs(node)) {
    const stays = isAsked && isPair(managedNode) && isAway(managedNode);
    return stays ? void 0 : endOf3(node, shadow2);
  }
  if (!isAsked || !isLost || !mayTaint(node)) return void 0;
  const message = `Set the taint ${OUT_OF_SERVICE_TAINT}: the node is lost, and spec.lostNode.action is ${action}`;
  return { node, wanted: true, event: eventOn(node, shadow2, { reason: "OutOfService", message, key: key2 }) };
}
function endOf3(node, shadow2) {
  const message = `Removed the taint ${OUT_OF_SERVICE_TAINT} that the operator had set`;
  const key2 = node.metadata.resourceVersion;
  const event2 = eventOn(node, shadow2, { reason: "OutOfServiceEnded", message, key: key2 });
  return { node, wanted: false, event: node.hasOutOfServiceTaint ? event2 : void 0 };
}
function mayTaint(node) {
  const isDrained3 = node.unschedulable && cordonedByUs(node);
  return isDrained3 && node.isUnreachable && !node.hasOutOfServiceTaint && !outOfServiceByUs(node);
}
var LEASE_PERIOD_MS = 1e4;
function isAway({ node, shadow: shadow2 }) {
  const reboot2 = rebootOf(shadow2);
  if (reboot2 === void 0 || drainEnd(shadow2) === void 0) return false;
  return !node.ready && node.bootID === reboot2.bootID && shadow2.status?.bootID === reboot2.bootID;
}
function rebootOf({ spec, status }) {
  const last = status?.lastOperation;
  if (spec.state !== "RebootedIntoUpdate" || !sameVersion(last?.version, spec.version)) return void 0;
  return last?.operation === "Reboot" && last.state === "Processing" ? last : void 0;
}
var EMPTY = ["Drained", "Forced"];
function drainEnd({ metadata: { generation }, status, times }) {
  const { observedGeneration, result } = status?.drain ?? {};
  return observedGeneration === generation && EMPTY.includes(result) ? times.drainEnd : void 0;
}
function lostAt(pair, policy, now) {
  const { node, shadow: shadow2, leaseExpired } = pair;
  const silentSince = node.isUnreachable ? node.readySince : void 0;
  const drainedAt = drainEnd(shadow2);
  if (silentSince === void 0 || drainedAt === void 0 || !isAway(pair)) return void 0;
  const { startTime, lastUpdateTime } = rebootOf(shadow2) ?? {};
  const requestedAt = latestTime([parseTime(startTime), parseTime(lastUpdateTime)], now) ?? 0;
  const since = Math.max(silentSince, drainedAt, requestedAt, policy.deadlinesFrom ?? 0);
  return Math.max(since + policy.lostNode.afterMs, leaseExpired === false ? now.ms + LEASE_PERIOD_MS : 0);
}

// packages/controller/src/upkeep/new-nodes.ts
function newNodesOf(managedNodes) {
  const pending2 = managedNodes.filter(({ shadow: shadow2 }) => shadow2 === void 0);
  const nodes = pending2.flatMap(({ node }) => node ?? []);
  const without3 = nodes.filter((node) => isManaged(node) && node.metadata.deletionTimestamp === void 0);
  const rejections = new Map(pending2.map(({ name, writeRejection }) => [name, writeRejection]));
  const problemOf6 = ({ metadata: { name } }) => name.length > MAX_NODE_NAME ? NAME_TOO_LONG : rejections.get(name);
  return {
    newNodes: without3.filter(({ metadata: { name } }) => name.length <= MAX_NODE_NAME),
    uncreated: new Map(without3.map((node) => [node.metadata.name, problemOf6(node)]).filter(isKnown))
  };
}
function isKnown(entry2) {
  return entry2[1] !== void 0;
}
var NAME_TOO_LONG = `the name of the Node is longer than ${MAX_NODE_NAME} characters`;

// packages/controller/src/upkeep/upkeep.ts
function upkeepOf({ fleetState }, snapshot, kept) {
  const { managedNodes } = snapshot;
  const { stale, now } = fleetState;
  const isCurrent = stale.length === 0;
  const metadata13 = withoutEvictions(nodeMetadataOf(snapshot, isCurrent, now), fleetState, managedNodes);
  const cleanups = managedNodes.flatMap((one) => kept.of(one, now, (moment) => cleanupOf(one, moment)) ?? []);
  const { lostTimes, ...losses } = lostNodesOf(managedNodes, fleetState);
  return {
    ...newNodesOf(isCurrent ? managedNodes : []),
    ...losses,
    cleanups: cleanups.filter(({ dueAt: dueAt2 }) => dueAt2 <= now),
    metadata: metadata13,
    asksFor: metadata13.lookUps ?? [],
    upkeepTimes: [...cleanups.map(({ dueAt: dueAt2 }) => dueAt2), ...metadata13.times, ...lostTimes]
  };
}

// packages/controller/src/whole-plan.ts
var KeptFacts = class {
  facts = new Kept();
  assessments = new Kept();
  cleanups = new Kept();
};
function wholePlan(snapshot, now, kept = new KeptFacts()) {
  const decided = plan(snapshot, now, kept);
  const checks3 = checkWork(decided);
  const { asksFor, upkeepTimes, ...upkeep } = upkeepOf(decided, snapshot, kept.cleanups);
  const report = reportOf(decided, upkeep, snapshot);
  const { specs, moreSpecs, taints, records } = decided;
  const times = [
    ...timesOf2(decided, snapshot),
    ...upkeepTimes,
    ...[report, ...report.groups].map(({ forecast }) => forecast.window.until),
    ...[report, ...report.groups].map(({ progress }) => progress?.deadline)
  ];
  return {
    specs,
    moreSpecs,
    taints,
    records,
    checks: checks3,
    ...upkeep,
    ...report,
    ...lookUpsOf(decided, asksFor, snapshot),
    wakeAt: earliest2(times, now)
  };
}
function earliest2(candidates, now) {
  const later = candidates.filter((time2) => time2 !== void 0 && time2 > now);
  return later.length === 0 ? void 0 : later.reduce((a, b) => Math.min(a, b));
}

// packages/shared/src/runtime/metrics.ts
var import_prom_client = require("prom-client");
var counter = (name, help, ...labels) => ({
  type: "counter",
  name,
  help,
  labels,
  buckets: []
});
var gauge = (name, help, ...labels) => ({
  type: "gauge",
  name,
  help,
  labels,
  buckets: []
});
var histogram = (name, buckets, help, ...labels) => ({ type: "histogram", name, help, labels, buckets });
var PROCESS_METRICS = {
  info: gauge("component_info", "Always 1. The program and its release of Node.js.", "component", "node_version"),
  build: gauge(
    "build_info",
    "Always 1. The program, its version, and the commit that it was built from. API servers also have it for the agents with an open stream, as `brupop-agent`: agents serve no metrics. Builds of agents beyond 20 are `other`, and both labels are empty for an agent that does not send its version.",
    "component",
    "version",
    "revision"
  ),
  clockSkew: gauge(
    "clock_skew_seconds",
    "Seconds by which the clock of this process is ahead of that of the Kubernetes API; negative if it is behind. The resolution is 2 seconds, and it is NaN until the first response. A controller with more than 300 starts no update ([`ClockSkew`](runbook.md#a-node-waits)); API servers compare times by the clock of the Kubernetes API."
  )
};

// packages/controller/src/metrics-table.ts
var METRICS = {
  nodes: gauge(
    "nodes",
    "Managed nodes by `spec.state`, the Bottlerocket version that they run, [group](node-groups.md) and zone. `state` is `NoShadow` until the controller has created the shadow. Versions beyond 20, zones beyond 50 and groups beyond 50 are `other`.",
    "state",
    "version",
    "group",
    "zone"
  ),
  rolloutNodes: gauge(
    "rollout_nodes",
    "Nodes of the rollout by phase and group. `phase` is `UpToDate`, `Updating`, `Waiting` or `Failed`, as `status.nodes` of the `BrupopConfig` counts them. `group` is empty for nodes without a group.",
    "phase",
    "group"
  ),
  hostsState: gauge(
    "hosts_state",
    "Shadows with a report by `status.current_state`. The Rust operator has this metric, so dashboards that were made for it continue to work.",
    "state"
  ),
  hostsVersion: gauge(
    "hosts_version",
    "Shadows with a report by the Bottlerocket version that their node runs. The Rust operator has this metric too.",
    "bottlerocket_version"
  ),
  waiting: gauge(
    "waiting_nodes",
    "Managed nodes that are neither up to date nor updating, or need attention, by [reason](runbook.md#a-node-waits), group and zone. A node whose agent has never reported counts from five minutes after the creation of its shadow.",
    "reason",
    "group",
    "zone"
  ),
  failedNodes: gauge(
    "failed_nodes",
    "Nodes that failed with a version and were not [accepted](runbook.md#a-version-is-frozen) since.",
    "version",
    "code"
  ),
  failureBudget: gauge(
    "failure_budget_remaining",
    "For each version that nodes failed with, how many more may fail with it until it is frozen; 0 also when it is. A version without failures has no value: it has the whole `spec.rollout.failureBudget`.",
    "version"
  ),
  failures: counter(
    "node_failures_total",
    "Nodes that failed with a version, each counted once when that was first seen, with the code of `status.failedNodes` of the `BrupopConfig`. Versions beyond 20 are `other`.",
    "version",
    "code"
  ),
  frozenVersions: gauge("frozen_versions", "1 for each version that is frozen for the fleet or a group.", "version"),
  heldVersions: gauge(
    "held_versions",
    "1 for each version that is [held](runbook.md#a-version-is-held) because workloads fail on it.",
    "version"
  ),
  suspectNodes: gauge(
    "suspect_nodes",
    "Nodes on which [workloads fail](runbook.md#a-node-is-suspect) since their update, and no user has accepted it."
  ),
  paused: gauge("paused", "1 while `spec.paused` lets no update start, else 0."),
  windowOpen: gauge(
    "window_open",
    "1 while a maintenance window is open or none is configured, else 0. `group` is empty for the `BrupopConfig`.",
    "group"
  ),
  blackout: gauge("blackout", "1 during a blackout, else 0.", "group"),
  nextOpen: gauge(
    "window_next_open_timestamp_seconds",
    "When updates may start again (Unix time). It has a value only while they may not, and if that is within 400 days.",
    "group"
  ),
  nextClose: gauge(
    "window_next_close_timestamp_seconds",
    "When the open window closes or a blackout begins (Unix time). It has a value only while updates may start and if that will end.",
    "group"
  ),
  expectedCompletion: gauge(
    "expected_completion_timestamp_seconds",
    "When all nodes that can update are expected to be up to date (Unix time). No value if there is nothing to do, or it is unknown.",
    "group"
  ),
  blockedDrains: gauge(
    "blocked_drains",
    "Nodes whose drain waits for a pod, by the [reason](runbook.md#a-drain-does-not-end) of the first one.",
    "reason"
  ),
  blockedSince: gauge(
    "drain_blocked_since_timestamp_seconds",
    "Since when the longest of these waits has lasted for the same reason (Unix time), by reason.",
    "reason"
  ),
  transitions: counter(
    "update_transitions_total",
    "Specs that were written to shadows. `state` is what `spec.state` was set to. `outcome` is `Started`, `Advanced` (to the next step), `Succeeded`, `Failed`, `Cancelled` (a deadline passed), `CheckFailed`, `Reverting` (to the previous version), `Reverted`, `Deferred`, `Interrupted`, `Aborted` (by a user), `Superseded`, `Withdrawn` (the host no longer offers the version), `Configured` (other settings of the host), `SettingsFailed` (the former settings are set again), `Repaired` or `Released` (no longer managed). `code` is the [error code](error-codes.md) of a failure (`other` if this release does not know it), the [reason](runbook.md#a-node-waits) of a deferral, `DeadlineExceeded` or `NotHealthy` of an update that ended after its deadline, `CheckFailed`, `VersionNotOffered` of a withdrawal, and else empty. The versions are those at the start of the update, also after the reboot; the same for a reboot for settings; empty if there is none or it is not recorded. A process tells 20 versions apart; all further ones are `other`.",
    "from_version",
    "to_version",
    "state",
    "outcome",
    "code"
  ),
  stepDuration: histogram(
    "update_step_duration_seconds",
    [10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200],
    "How long steps took that were completed, by the `spec.state` of the step, with the waits in it: that for the pods of a drain, for example.",
    "state"
  ),
  rolloutLate: gauge(
    "rollout_late",
    "1 while no node of the fleet, or of a group with a deadline of its own, succeeds for [`spec.rollout.progressDeadline`](runbook.md#the-whole-fleet-waits), else 0."
  ),
  quorumMembers: gauge(
    "quorum_members",
    "Members of each set of [`spec.quorums`](quorums.md), at most 20 sets. `state` is `ready` or `away`: not Ready, missing, or on a node that is down or being drained. No value while no node with a member waits, starts or is updating, nor while the members cannot be listed.",
    "quorum",
    "state"
  ),
  invalid: gauge(
    "invalid_configurations",
    "Objects with a mistake, whose nodes start no update. `kind` is `BrupopConfig` (also when there is none) or `BottlerocketNodeGroup`.",
    "kind"
  ),
  lostNodes: gauge(
    "lost_nodes",
    "Nodes that [did not return](runbook.md#a-node-is-lost) from the reboot of their update."
  ),
  countedLeases: gauge(
    "node_leases",
    "Managed nodes, without those that are updating, whose Lease was renewed in the last hour."
  ),
  expiredLeases: gauge("expired_node_leases", "Nodes of `brupop_node_leases` whose Lease has expired."),
  connectivityLost: gauge(
    "connectivity_lost",
    "1 while no update starts, in the fleet or in a zone, since [most Leases have expired](runbook.md#connectivity-is-lost), else 0."
  ),
  clusterLost: gauge(
    "cluster_connectivity_lost",
    "1 while most nodes of the whole cluster have not renewed their Leases, so that [dependents](dependents.md) are scaled to 0, else 0. Only on the leader, and no value without dependents."
  ),
  dependents: gauge(
    "dependents",
    "Dependents by `state`, as in `status.dependents` of the `BrupopConfig`: `Up`, `Down`, `ScaledByOthers`, `NotFound`, `NotAllowed` or `Failed`. Only on the leader.",
    "state"
  ),
  deadlineExceeded: counter(
    "deadline_exceeded_total",
    "Steps of updates that had no result within their limit, by `spec.state`.",
    "state"
  ),
  leader: gauge("controller_leader", "1 on the leader, else 0."),
  observedGeneration: gauge(
    "config_observed_generation",
    "Generation of the `BrupopConfig` that the latest plan followed. 0 without one."
  ),
  planDuration: histogram(
    "plan_duration_seconds",
    [1e-3, 5e-3, 0.02, 0.05, 0.1, 0.5, 2],
    "How long it took to plan for the whole fleet."
  ),
  reconcileDuration: histogram(
    "controller_reconcile_duration_seconds",
    [0.01, 0.05, 0.2, 1, 5, 20, 60],
    "How long reconciles took, with all of their writes."
  ),
  watchLag: gauge(
    "controller_watch_lag_seconds",
    "Seconds since a watch was last confirmed: by an event, a bookmark or a successful check. `resource` is `nodes`, `bottlerocketshadows`, `brupopconfigs`, `bottlerocketnodegroups`, `poddisruptionbudgets` or `leases`. No update starts at 120 or more.",
    "resource"
  ),
  watchRestarts: counter(
    "controller_watch_restarts_total",
    "Watches that failed and were opened again, with backoff. `resource` is as above.",
    "resource"
  ),
  reconcileErrors: counter("controller_reconcile_errors_total", "Reconciles that failed. They are retried."),
  certificateExpiry: gauge(
    "controller_certificate_expiry_timestamp_seconds",
    "When the certificate of the API servers (`serving`) and each authority in use (`authority`) expire (Unix time). Only on the leader, and not with `tls.mode: provided`.",
    "certificate",
    "issuer"
  ),
  certificateReady: gauge(
    "controller_certificate_ready",
    "1 if the condition [`CertificateReady`](runbook.md#the-certificate) is `True`, else 0. Only on the leader, and not with `tls.mode: provided`.",
    "mode"
  ),
  checks: counter(
    "checks_total",
    "Jobs of [checks and hooks](checks.md) that ended, by name. `phase` is `Before` or `After`, and `result` `Succeeded`, `Failed`, `TimedOut` or `Gone`. For evaluations of queries and alerts, `phase` is `Query`, and `result` `Passed` or `NotPassed`.",
    "check",
    "phase",
    "result"
  ),
  recoveries: gauge(
    "recoveries",
    "What [has recovered](recovery.md) lately, so that pods that wait in CrashLoopBackOff are evicted. `kind` is `Node` or `Service`. Only on the leader.",
    "kind"
  ),
  recoveryEvictions: counter(
    "recovery_evictions_total",
    "Evictions that were requested for this. `result` is `accepted`, `gone` (the pod had been deleted), `unknown` (no response), or why it was refused, as in [blocked drains](runbook.md#a-drain-does-not-end); it is requested again then.",
    "result"
  ),
  notifications: counter(
    "notifications_total",
    "[Notifications](notifications.md) by receiver. `result` is `Sent`, `Refused` (the server does not take the content), `GivenUp` (an hour has passed) or `Dropped` (too many wait). Receivers beyond 20 in the life of a process are `other`.",
    "receiver",
    "result"
  ),
  notificationFailures: counter(
    "notification_failures_total",
    "Attempts to notify, or to read the Secret of a receiver, that failed. `reason` is `Secret`, `Address`, `Timeout`, `Unreachable`, `TLS`, `Proxy`, `Redirected`, `Refused` (status 4xx), `ServerError` (status 5xx) or `Unknown`.",
    "receiver",
    "reason"
  ),
  notificationReceiverReady: gauge(
    "notification_receiver_ready",
    "1 if the latest attempt succeeded, 0 if it failed ([what to do](runbook.md#notifications)). Only on the leader.",
    "receiver"
  ),
  writes: counter(
    "controller_writes_total",
    "Writes to the Kubernetes API. `kind` is `spec`, `condition`, `config_create`, `config_status`, `group_status`, `group_finalizer`, `node_restore`, `node_taint`, `node_metadata`, `node_out_of_service`, `shadow_create`, `shadow_delete`, `record`, `job_record`, `job_create`, `job_delete`, `ca_secret`, `ca_config_map`, `tls_secret`, `dependent`, `recovery_status` or `event`. `result` is `ok`, `conflict` (the object had changed; planned again), `error` (retried with backoff) or `dropped` (Events only, when there are too many).",
    "kind",
    "result"
  ),
  pendingWrites: gauge(
    "controller_pending_writes",
    "Writes that failed and wait for their next attempt, by `kind` as above, and Events (`event`) that wait to be sent. Only the leader has others than `event`; a kind of which none waits has no value.",
    "kind"
  )
};

// packages/controller/src/apply/shadows.ts
var FOLLOWED = {
  Started: [RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION],
  Aborted: [ABORT_ANNOTATION]
};
function annotationsOf({
  shadow: shadow2,
  record: record9,
  outcome,
  past
}) {
  const text6 = recordText(record9);
  const { annotations = {} } = shadow2.metadata;
  const followed = (FOLLOWED[outcome] ?? []).filter((name) => annotations[name] !== void 0);
  return {
    ...text6 !== recordText(shadow2.record) && { [RECORD_ANNOTATION]: text6 },
    ...Object.fromEntries(followed.map((name) => [name, null])),
    ...past !== void 0 && { [past.key]: JSON.stringify(past.update) }
  };
}

// packages/controller/src/apply/conditions.ts
function conditionOf({ shadow: shadow2, progressing: progressing3 }, now) {
  const { status, reason: reason2, message } = progressing3;
  const lastTransitionTime = transitionTime(shadow2.progressing, status, now);
  return { type: PROGRESSING, status, reason: reason2, message, lastTransitionTime };
}
function healthConditions({ shadow: shadow2, progressing: progressing3, health, suspects }, now) {
  const of = (type, status, { reason: reason2, message }) => {
    const before = shadow2.health.find((one) => one.type === type);
    return { type, status, reason: reason2, message, lastTransitionTime: transitionTime(before, status, now) };
  };
  const readiness = health === "Ready" ? [of("Ready", "True", progressing3)] : [of("Ready", "False", progressing3), of(health, "True", progressing3)];
  return suspects === void 0 ? readiness : [...readiness, of(SUSPECT, "True", { reason: "WorkloadsFail", message: suspects })];
}

// packages/controller/src/report/config-status.ts
var import_node_crypto4 = require("node:crypto");

// packages/controller/src/report/freezes.ts
var NOT_PAUSED = { status: "False", reason: "NotPaused", message: "Updates may start" };
function groupPaused({ policy, group: group2 }) {
  return policy.paused ? { status: "True", reason: "Paused", message: describePause(policy, group2) } : NOT_PAUSED;
}
var NOT_FROZEN = { status: "False", reason: "NotFrozen", message: "No version failed on too many nodes" };
function groupFrozen({
  group: group2,
  fleetFrozen: [ofFleet],
  frozen: [own2],
  failed: failed2
}) {
  const reason2 = "FailureBudgetExceeded";
  if (ofFleet !== void 0) return { status: "True", reason: reason2, message: describeFreeze(ofFleet) };
  if (own2 === void 0) return NOT_FROZEN;
  return { status: "True", reason: reason2, message: `In ${objectOf(group2.name)}: ${describeFrozen(own2.version, failed2)}` };
}
var MAX_NAMED_FAILED = 5;
function describeFrozen(version3, failed2) {
  const nodes = failed2.filter((one) => sameVersion(one.version, version3));
  const list2 = nodes.slice(0, MAX_NAMED_FAILED).map(({ name, code, deleted = false }) => `${name} (${code}${deleted ? ", deleted" : ""})`);
  const more = nodes.length > list2.length ? ` and ${nodes.length - list2.length} others` : "";
  const still = nodes.length === 0 ? "all have recovered or are accepted" : `still failed: ${list2.join(", ")}${more}`;
  return `No update to ${version3} or an older version starts: it failed on more nodes than spec.rollout.failureBudget allows (${still}). Find the cause; then set spec.rollout.resume to the current time, pin another version, or wait for a later one`;
}

// packages/controller/src/report/held-versions.ts
var MAX_NAMED8 = 5;
function held2({ holds }) {
  const found = holds.find(({ suspects }) => suspects.length > 0);
  if (found === void 0)
    return { status: "False", reason: "NotHeld", message: "No version is held because workloads fail on it" };
  return { status: "True", reason: "WorkloadsFail", message: describeHeld(found) };
}
function describeHeld({ version: version3, until, suspects }) {
  const byWorkload = [...Map.groupBy(suspects, ({ workload }) => workload)];
  const list2 = byWorkload.slice(0, MAX_NAMED8).map(([workload, nodes]) => `${workload} (${onNodes(nodes)})`);
  const more = byWorkload.length > MAX_NAMED8 ? ` and ${byWorkload.length - MAX_NAMED8} more` : "";
  return `No update to ${version3} starts until ${rfc3339(until)}: these workloads fail on nodes that run it, and were Ready on nodes of the former version: ${list2.join(", ")}${more}. Look at their pods with kubectl get pods -o wide. If ${version3} is not the cause, set spec.rollout.resume to the current time to continue now; if it is, pin another version or deny it with spec.versions`;
}
var MAX_NODES = 3;
function onNodes(nodes) {
  const more = nodes.length > MAX_NODES ? ` and ${nodes.length - MAX_NODES} more nodes` : "";
  return `${nodes.slice(0, MAX_NODES).map(onNode).join(", ")}${more}`;
}
function onNode({ node, problem, from }) {
  const moved = from === void 0 ? "" : `, moved there by the drain of ${from}`;
  return `${problem} on ${node}${moved}`;
}

// packages/controller/src/report/config-conditions.ts
var CONFIG_REASONS = [
  "InUse",
  "InvalidConfiguration",
  "Paused",
  "NotPaused",
  "WatchStale",
  "ClockSkew",
  "LeasesExpired",
  "LeasesRenewed",
  "FailureBudgetExceeded",
  "NotFrozen",
  "WorkloadsFail",
  "NotHeld",
  "NoWindows",
  "InWindow",
  "OutsideWindows",
  "Blackout",
  "Updating",
  "UpToDate",
  "NoNodes",
  "Waiting",
  "NodesFailed",
  "NodesNeedAttention",
  "ProgressDeadlineExceeded",
  "AsExpected",
  "OtherDefaults",
  "NoOtherDefaults",
  "OtherRendering",
  "NoOtherRendering",
  ...METADATA_REASONS,
  ...SETTINGS_REASONS
];
var isTrue = (reason2, message) => ({ status: "True", reason: reason2, message });
var isFalse = (reason2, message) => ({ status: "False", reason: reason2, message });
var GROUP_CONDITIONS = {
  Ready: groupReady,
  Paused: groupPaused,
  Frozen: groupFrozen,
  WindowOpen: windowOpen2,
  Progressing: groupProgressing,
  SettingsApplied: ({ settings: settings2 }) => evaluateSettings(settings2),
  Degraded: ({ metadata: metadata13, settings: settings2, progress, ...rollout2 }) => evaluateNodes(rollout2, progress, [...describeMetadata(metadata13), ...describeSettings2(settings2)]),
  MetadataApplied: metadataApplied,
  PendingChanges: pendingRendering2
};
function groupReady({ group: group2, policy, unconfirmed: unconfirmed2, isMoving }) {
  const { problem } = group2;
  if (problem === void 0 && policy.problem !== void 0) {
    return isFalse("InvalidConfiguration", `BrupopConfig "cluster" cannot be followed: ${policy.problem}`);
  }
  if (problem === void 0 && isMoving && unconfirmed2.length > 0)
    return isFalse("Applying", `The spec is being applied${missing(unconfirmed2)}`);
  if (problem === void 0) return isTrue("InUse", `The spec is in use${missing(unconfirmed2)}`);
  const message = `No node of the group starts an update, and updating nodes may follow the BrupopConfig instead: ${problem}`;
  return isFalse("InvalidConfiguration", message);
}
function pendingRendering2({ group: group2 }) {
  const list2 = describeChanges(group2.pendingChanges);
  if (list2 === void 0) return isFalse("NoOtherRendering", "The next change of the spec changes nothing else");
  return isTrue(
    "OtherRendering",
    `This release renders the spec differently. The next change of the spec will also change ${list2}`
  );
}
function withEarlier(result, { waitsFor }) {
  if (waitsFor === void 0) return result;
  const nodes = waitsFor.nodes.length === 0 ? "" : `, whose nodes ${namesOf(waitsFor.nodes)} do not run ${waitsFor.version} yet`;
  return { ...result, message: `${result.message}; waits for ${NODE_GROUP_KIND} "${waitsFor.name}"${nodes}` };
}
function groupProgressing(rollout2) {
  if (rollout2.counts.managed > 0) return withEarlier(withSettings3(progressing2(rollout2), rollout2, [rollout2]), rollout2);
  const message = "No managed node is in the group: spec.nodeSelector selects none, or other groups with a higher precedence, or with the same precedence and a name that sorts first, select all of them";
  return isFalse("NoNodes", message);
}
function withSettings3(result, { isMoving }, groups) {
  const left = groups.map(({ settings: settings2 }) => evaluateSettings(settings2)).find(({ status }) => status === "False");
  if (result.reason !== "UpToDate" || left === void 0) return result;
  return { status: isMoving ? "True" : "False", reason: left.reason, message: `${result.message}; ${left.message}` };
}
var CONDITIONS = {
  Ready: ready2,
  Paused: paused2,
  Frozen: frozen,
  Held: held2,
  Connected: connected2,
  WindowOpen: windowOpen2,
  Progressing: (plan2) => withSettings3(progressing2(plan2), plan2, plan2.groups),
  Degraded: degraded,
  PendingChanges: pendingChanges
};
function missing(unconfirmed2) {
  return unconfirmed2.length === 0 ? "" : `; not confirmed yet by ${namesOf(unconfirmed2)}`;
}
function ready2({ policy: { problem }, unconfirmed: unconfirmed2 }) {
  if (problem === void 0) return isTrue("InUse", `The configuration is in use${missing(unconfirmed2)}`);
  const message = `No update starts, and updating nodes follow the previous configuration: ${problem}`;
  return isFalse("InvalidConfiguration", message);
}
function paused2({ policy: { paused: paused3, pauseReason } }) {
  if (!paused3) return NOT_PAUSED;
  return isTrue("Paused", pauseReason ?? "spec.paused is true; spec.pauseReason does not say why");
}
function frozen({ policy: { problem }, stale, clockSkewMs, failed: failed2, frozen: versions }) {
  if (stale.length > 0) return isTrue("WatchStale", `No update starts. ${unconfirmed(stale)}`);
  const skewed = clockRight({ clockSkewMs });
  if (skewed !== void 0) return isTrue("ClockSkew", skewed.message);
  if (problem !== void 0) return isTrue("InvalidConfiguration", `No update starts: ${problem}`);
  const [first] = versions;
  if (first !== void 0) return isTrue("FailureBudgetExceeded", describeFrozen(first.version, failed2));
  return isFalse(
    "NotFrozen",
    "Watches are up to date, the configuration is valid, and no version failed on too many nodes"
  );
}
var MAX_NAMED_LEASES = 5;
function connected2({ connectivity }) {
  const { lost, expired, counted } = connectivity;
  const zones = lostZones(connectivity);
  if (!lost && zones.length === 0) return isTrue("LeasesRenewed", "Most nodes renew their Leases");
  const list2 = expired.slice(0, MAX_NAMED_LEASES).map(({ name, renewedAt }) => `${name} since ${rfc3339(renewedAt)}`);
  const oldest = list2.length === 0 ? "" : ` (${list2.join(", ")})`;
  const where = lost ? "" : ` in the zone ${namesOf(zones)}`;
  const message = `No update or drain starts${where}: ${expired.length} of ${counted} nodes that are not updating have not renewed their Leases${oldest}. Updates continue by themselves when they do; look for a failure of the network, of a zone or of the control plane`;
  return isFalse("LeasesExpired", message);
}
var WINDOW_MESSAGES = {
  NoWindows: "No windows are configured: updates may start at any time",
  InWindow: "A maintenance window is open",
  OutsideWindows: "No maintenance window is open",
  Blackout: "No update or drain starts during this blackout"
};
function windowOpen2({ forecast: { window: window2, nextOpenAt } }) {
  const { open, reason: reason2, until, blackout: blackout2 } = window2;
  const why = blackout2?.reason === void 0 ? "" : `: ${blackout2.reason}`;
  const closes = open && until !== void 0 ? `, until ${rfc3339(until)}` : "";
  const opens = !open && nextOpenAt !== void 0 ? `; the next opens at ${rfc3339(nextOpenAt)}` : "";
  const message = `${WINDOW_MESSAGES[reason2]}${why}${closes}${opens}`;
  return { status: open ? "True" : "False", reason: reason2, message };
}
var NOT_REPORTED = ["Waiting", "the others have not reported yet"];
function progressing2({ counts: counts2, forecast, policy }) {
  const { managed: managed2, upToDate: upToDate2, updating: updating2 } = counts2;
  const { completionTime } = forecast;
  const by = completionTime === void 0 ? "" : `; expected to be complete by ${completionTime}`;
  const tally = `${upToDate2} of ${managed2} nodes are up to date`;
  if (managed2 === 0) {
    const which = policy.nodeSelector === void 0 ? "" : " and that spec.nodeSelector selects";
    return isFalse("NoNodes", `There is no node with the label of managed nodes${which}`);
  }
  if (policy.problem !== void 0) {
    const message = `${tally}, ${updating2} updating, and no other update starts: ${policy.problem}`;
    return { status: updating2 > 0 ? "True" : "False", reason: "InvalidConfiguration", message };
  }
  if (updating2 > 0) return isTrue("Updating", `${tally}, ${updating2} updating${by}`);
  if (upToDate2 === managed2) return isFalse("UpToDate", "All nodes are up to date");
  const [reason2, why] = describeWaiting(counts2, forecast) ?? NOT_REPORTED;
  return isFalse(reason2, `${tally}; ${why}${by}`);
}
function describeWaiting({ failed: failed2 }, { waitingReasons, failedReasons }) {
  const [waiting3] = byFrequency(waitingReasons);
  const others = failed2 === 0 ? "" : `, ${failed2} failed`;
  if (waiting3 !== void 0) return [waiting3[0], `${waiting3[1]} waiting: ${waiting3[0]}${others}`];
  const [reason2] = byFrequency(failedReasons)[0] ?? [];
  return reason2 === void 0 ? void 0 : [reason2, `${failed2} failed: ${reason2}`];
}
function degraded(plan2) {
  const { uncreated, orphanedNodes, progress, groups } = plan2;
  const others = [
    ...describeUnhealthy(plan2),
    ...describeUncreated(uncreated),
    ...describeOrphaned(orphanedNodes),
    ...describeGroups(groups),
    ...describeUnapplied(groups)
  ];
  return evaluateNodes(plan2, progress, others);
}
function evaluateNodes({ policy: { problem }, counts: counts2, forecast, stuckNodes, lost }, progress, more) {
  if (problem !== void 0) return isTrue("InvalidConfiguration", problem);
  const { failed: failed2 } = counts2;
  const needed = countsByReason(forecast.needAttention);
  const counted = [...needed, ...stuckNodes.length > 0 ? [describeStuck(stuckNodes)] : []].join(", ");
  const found = [
    ...counted === "" ? [] : [`${counted}; kubectl get brs -A -o wide shows the nodes and reasons`],
    ...describeLost(lost),
    ...more
  ];
  const others = found.length === 0 ? "" : `Nodes need attention: ${found.join("; ")}`;
  if (progress?.isLate === true)
    return isTrue("ProgressDeadlineExceeded", describeLate(progress, describeWaiting(counts2, forecast), others));
  if (others !== "") return isTrue("NodesNeedAttention", others);
  if (failed2 === 0) return isFalse("AsExpected", "No node needs attention");
  const nodes = failed2 === 1 ? "node" : "nodes";
  return isTrue("NodesFailed", `The latest attempt failed on ${failed2} ${nodes}; retried automatically`);
}
var MAX_CHANGES2 = 10;
function pendingChanges({ policy }) {
  const list2 = describeChanges(policy.pendingChanges);
  if (list2 === void 0) return isFalse("NoOtherDefaults", "The next change of the spec changes nothing else");
  return isTrue(
    "OtherDefaults",
    `This release has other defaults. The next change of the spec will also change ${list2}`
  );
}
function describeChanges(pending2) {
  const changes = pending2.map(
    ({ field: field2, before, after }) => `spec.${field2} from ${valueOf(before)} to ${valueOf(after)}`
  );
  if (changes.length === 0) return void 0;
  const more = changes.length > MAX_CHANGES2 ? ` and ${changes.length - MAX_CHANGES2} more fields` : "";
  return `${changes.slice(0, MAX_CHANGES2).join(", ")}${more}`;
}
function valueOf(value2) {
  return value2 === void 0 ? "none" : shorten(typeof value2 === "string" ? value2 : JSON.stringify(value2), 100);
}
function describeLate({ lastProgressAt }, waiting3, others) {
  const late = `No node has succeeded since ${rfc3339(lastProgressAt)}, which is longer than spec.rollout.progressDeadline allows`;
  const why = waiting3 === void 0 ? "" : `; ${waiting3[1]}`;
  return others === "" ? `${late}${why}` : `${late}${why}. ${others}`;
}
function describeUnhealthy({ counts: { managed: managed2, updating: updating2, upToDate: upToDate2 }, forecast: { reasons } }) {
  const unhealthy = reasons.get("NodeUnhealthy") ?? 0;
  if (unhealthy < 2 || updating2 > 0 || unhealthy < managed2 - upToDate2) return [];
  return [
    `all ${unhealthy} nodes that wait are unhealthy (NodeUnhealthy). If that is wrong, a condition of spec.health.conditions is good when True: name its bad status, such as KernelReady=False`
  ];
}
function describeUncreated(uncreated) {
  const [problem] = uncreated.values();
  if (problem === void 0) return [];
  return [`the shadows of ${namesOf([...uncreated.keys()])} cannot be created: ${shorten(problem, MAX_MESSAGE)}`];
}
function describeGroups(groups) {
  const invalid = groups.filter(({ group: group2 }) => group2.problem !== void 0).map(({ group: group2 }) => group2.name);
  return invalid.length === 0 ? [] : [`these groups have a mistake: ${namesOf(invalid)}; see kubectl get brng`];
}
var UNCOUNTED = {
  SettingsConflict: "users have set other values than these groups on hosts",
  Conflict: "other writers have set other labels, annotations or taints than these groups on Nodes",
  WriteRejected: "labels, annotations or taints of these groups are rejected"
};
function describeUnapplied(groups) {
  const result = groups.map(({ group: group2, metadata: metadata13, settings: settings2 }) => {
    const reasons = [evaluateSettings(settings2).reason, metadataApplied({ group: group2, metadata: metadata13 }).reason];
    return { name: group2.name, reasons };
  });
  return Object.entries(UNCOUNTED).flatMap(([reason2, text6]) => {
    const names = result.filter(({ reasons }) => reasons.includes(reason2)).map(({ name }) => name);
    return names.length === 0 ? [] : [`${text6} (${reason2}): ${namesOf(names)}; see kubectl get brng`];
  });
}
function describeOrphaned(nodes) {
  if (nodes.length === 0) return [];
  return [`orphaned annotations on ${namesOf(nodes)}: no update of the operator set them; see kubectl describe node`];
}

// packages/controller/src/report/config-status.ts
var CERTIFICATE_CONDITION = "CertificateReady";
var DEPENDENTS_CONDITION = "DependentsAvailable";
var RECOVERY_CONDITION = "RecoveryReady";
var NOTIFICATIONS_CONDITION = "NotificationsReady";
function statusOf(input) {
  const { config, plan: plan2, before, now, certificate, dependents, recovery: recovery2, notifications: notifications2 } = input;
  const { generation = 0 } = config.metadata;
  const { policy, forecast, counts: counts2, clockSkewMs } = plan2;
  const confirmed = confirmedOf(input);
  const isConfirmed = confirmed.confirmedGeneration === generation;
  const conditions2 = {
    ...evaluatedConditions(awaiting(plan2, isConfirmed)),
    ...besides(CERTIFICATE_CONDITION, certificate, before),
    ...besides(DEPENDENTS_CONDITION, conditionIn(dependents), before),
    ...besides(RECOVERY_CONDITION, recovery2, before),
    ...besides(NOTIFICATIONS_CONDITION, conditionIn(notifications2), before)
  };
  const needsUser = configNeedsUser(Object.values(conditions2)) ?? freezeOf(plan2);
  const state2 = reconciliationOf(plan2, { generation, isConfirmed, isWritten: input.isWritten }, needsUser);
  return {
    observedGeneration: generation,
    ...confirmed,
    conditions: conditionsOf({ ...conditions2, ...state2 }, before, { generation, now }),
    nodes: counts2,
    versions: versionStatuses(forecast.versions, before?.versions ?? [], isClockWrong(clockSkewMs) ? void 0 : now),
    ...failuresOf(plan2),
    ...laneOf2(plan2),
    ...rolloutsOf(before, plan2.releases, plan2.edits, now),
    ...holdsOf2(plan2),
    ...quorumsOf2(plan2, before, now),
    ...dependentsOf(dependents, before, now),
    ...notificationsOf(notifications2, before),
    ...windowOf(plan2),
    ...forecast.measuredMs !== void 0 && { updateEstimate: formatDuration(forecast.measuredMs) },
    ...expectedOf2(forecast),
    ...policy.inForce !== void 0 && { inForce: policy.inForce }
  };
}
function freezeOf({
  frozen: all,
  failed: nodes,
  forecast: { versions, reasons },
  policy
}) {
  const isOffered = (frozen2) => versions.some(({ version: version3, offered }) => offered > 0 && sameVersion(version3, frozen2));
  const wanted = all.find(({ version: version3 }) => isWanted(version3, policy.versions) && isOffered(version3));
  const found = wanted ?? (reasons.has("Frozen") ? all[0] : void 0);
  if (found === void 0) return void 0;
  return { status: "True", reason: "FailureBudgetExceeded", message: describeFrozen(found.version, nodes) };
}
function quorumsOf2({ policy, quorums: counts2 }, before, now) {
  const quorums2 = policy.quorums.flatMap(({ name }) => {
    const last = before?.quorums?.find((one) => one.name === name);
    const count2 = counts2.find((one) => one.name === name);
    if (count2 === void 0) return last === void 0 ? [] : [last];
    const found = shownCount(count2);
    return [{ ...found, since: last !== void 0 && isSameCount(found, last) ? last.since : rfc3339(now) }];
  });
  return quorums2.length === 0 ? {} : { quorums: quorums2 };
}
function awaiting(rollout2, isConfirmed) {
  return isConfirmed ? { ...rollout2, unconfirmed: [] } : rollout2;
}
function isGroupInEffect(rollout2) {
  const { group: group2, policy, unconfirmed: unconfirmed2, metadata: metadata13 } = rollout2;
  const isApplied2 = isRecorded(rollout2) && metadata13.pending.length + metadata13.conflicts.length === 0;
  return group2.problem === void 0 && policy.problem === void 0 && unconfirmed2.length === 0 && isApplied2;
}
function isRecorded({ group: group2, metadata: metadata13 }) {
  return metadata13.isRecorded || isEmpty(group2.rendering, true) && isEmpty(group2.rendered, false);
}
function confirmedOf({ config, plan: plan2, before = {}, isWritten }) {
  const { uid, generation = 0 } = config.metadata;
  const { policy, groups, unconfirmed: unconfirmed2 } = plan2;
  const { confirmedGeneration, childrenObservedGeneration, observedDigest } = before;
  const known = {
    ...confirmedGeneration !== void 0 && { confirmedGeneration },
    ...childrenObservedGeneration !== void 0 && { childrenObservedGeneration },
    ...observedDigest !== void 0 && { observedDigest }
  };
  if (!isWritten || unconfirmed2.length > 0 || policy.problem !== void 0) return known;
  if (!groups.every(isGroupInEffect)) return { ...known, confirmedGeneration: generation };
  const children = groups.map(({ group: group2 }) => `${NODE_GROUP_KIND} ${group2.uid} ${group2.generation}`);
  return {
    confirmedGeneration: generation,
    childrenObservedGeneration: groups.reduce((sum, { group: group2 }) => sum + group2.generation, 0),
    // A sum alone would not show that one group was replaced by another.
    observedDigest: digestOf([`${CONFIG_KIND} ${uid} ${generation}`, ...children])
  };
}
function digestOf(texts2) {
  return (0, import_node_crypto4.createHash)("sha256").update(texts2.toSorted().join("\n")).digest("hex");
}
function conditionsOf(conditions2, before, { generation, now }) {
  return Object.entries(conditions2).map(([type, { status, reason: reason2, message }]) => {
    const lastTransitionTime = transitionTime(lastOf(before, type), status, now);
    return { type, status, reason: reason2, message: printable(message), lastTransitionTime, observedGeneration: generation };
  });
}
function evaluatedConditions(plan2) {
  return Object.fromEntries(
    Object.entries(CONDITIONS).map(([type, evaluate2]) => [type, evaluate2(plan2)])
  );
}
function besides(type, now, before) {
  const known = now === "unknown" ? lastOf(before, type) : now;
  if (known === void 0) return {};
  const { status, reason: reason2, message } = known;
  return { [type]: { status, reason: reason2, message } };
}
function conditionIn(report) {
  return typeof report === "object" ? report.condition : report;
}
function notificationsOf(shown, before) {
  const notifications2 = shown === "unknown" ? before?.notifications : shown?.status;
  return notifications2 === void 0 ? {} : { notifications: notifications2 };
}
function lastOf(before, wanted) {
  return before?.conditions?.find(({ type }) => type === wanted);
}
var MAX_FAILED = 50;
var MAX_RECORDED2 = 20;
function failuresOf({ failed: failed2 }) {
  const failedNodes2 = failed2.slice(0, MAX_FAILED).map(({ since, ...one }) => ({ ...one, since: rfc3339(since) }));
  return failed2.length > 0 ? { failedNodes: failedNodes2 } : {};
}
function laneOf2({
  frozen: frozen2,
  canaries: completed,
  progress
}) {
  const [frozenVersions2, canaries] = [frozen2, completed].map(
    (versions) => versions.slice(0, MAX_RECORDED2).map(({ version: version3, since }) => ({ version: version3, since: rfc3339(since) }))
  );
  return {
    ...frozen2.length > 0 && { frozenVersions: frozenVersions2 },
    ...completed.length > 0 && { canaries },
    ...progress !== void 0 && { progress: statusOfProgress(progress) }
  };
}
function holdsOf2({ holds }) {
  const heldVersions = holds.slice(0, MAX_RECORDED2).map(({ version: version3, since }) => ({ version: version3, since: rfc3339(since) }));
  return heldVersions.length === 0 ? {} : { heldVersions };
}
function statusOfProgress({
  lastProgressAt,
  countedMs,
  countedFrom
}) {
  return {
    lastProgressTime: rfc3339(lastProgressAt),
    countedSeconds: Math.floor(countedMs / 1e3),
    ...countedFrom !== void 0 && { countedFrom: rfc3339(countedFrom) }
  };
}
function dependentsOf(dependents, before, now) {
  const known = before?.dependents ?? [];
  const shown = dependents === "unknown" ? known : dependents?.dependents ?? [];
  if (shown.length === 0) return {};
  const lostTime = dependents === "unknown" ? before?.clusterLostTime : lostTimeOf(dependents);
  const sinceOf = (one) => known.find((other) => isSameTarget(one, other))?.since;
  return {
    dependents: shown.map(
      (one) => one.replicas !== void 0 ? { ...one, since: sinceOf(one) ?? rfc3339(now) } : one
    ),
    ...lostTime !== void 0 && { clusterLostTime: lostTime }
  };
}
function lostTimeOf(report) {
  return report?.clusterLostAt === void 0 ? void 0 : rfc3339(report.clusterLostAt);
}
function isSameTarget(one, other) {
  return one.kind === other.kind && one.namespace === other.namespace && one.target === other.target;
}
function windowOf({ policy, forecast: { window: window2, nextOpenAt } }) {
  if (policy.maintenance.windows.length === 0 && policy.maintenance.blackouts.length === 0) return {};
  const { open, until } = window2;
  if (open) return until === void 0 ? {} : { window: { nextCloseTime: rfc3339(until) } };
  return nextOpenAt === void 0 ? {} : { window: { nextOpenTime: rfc3339(nextOpenAt) } };
}
function expectedOf2({
  queue,
  completionTime
}) {
  return {
    ...completionTime !== void 0 && { expectedCompletionTime: completionTime },
    plan: queue
  };
}
var MAX_VERSIONS = 50;
function versionStatuses(counts2, before, now) {
  const current = counts2.map(({ hasAge, ...count2 }) => {
    if (!hasAge) return count2;
    const known = before.find(({ version: version3 }) => sameVersion(version3, count2.version))?.firstOfferedTime;
    if (known !== void 0 && parseTime(known) !== void 0) return { ...count2, firstOfferedTime: known };
    return now === void 0 ? count2 : { ...count2, firstOfferedTime: rfc3339(now) };
  });
  return current.toSorted(mostNodesFirst).slice(0, MAX_VERSIONS).toSorted(newestFirst);
}
function mostNodesFirst(a, b) {
  return b.running + b.offered - (a.running + a.offered) || newestFirst(a, b);
}
function newestFirst(a, b) {
  return b.version.localeCompare(a.version, "en", { numeric: true });
}

// packages/controller/src/report/group-status.ts
function groupStatusOf({ metadata: metadata13 }, { rollout: rollout2, before, isWritten, now }) {
  const { generation = 0 } = metadata13;
  const rendered = recordOf({ metadata: metadata13, status: before ?? {} }, rollout2.group);
  const confirmed = isWritten && isGroupInEffect(rollout2) ? generation : before?.confirmedGeneration;
  const isConfirmed = confirmed === generation;
  const shown = awaiting(withMetadata(rollout2), isConfirmed);
  const evaluated = Object.entries(GROUP_CONDITIONS).map(([type, evaluate2]) => [type, evaluate2(shown)]);
  const needsUser = groupNeedsUser(rollout2, GROUP_CONDITIONS.Ready(shown)) ?? groupStalls(rollout2);
  const state2 = reconciliationOf(withMetadata(rollout2), { generation, isConfirmed, isWritten }, needsUser);
  return {
    observedGeneration: generation,
    ...confirmed !== void 0 && { confirmedGeneration: confirmed },
    conditions: conditionsOf({ ...Object.fromEntries(evaluated), ...state2 }, before, { generation, now }),
    ...rendered !== void 0 && { rendered },
    nodes: rollout2.counts,
    ...laneOf2(rollout2),
    ...rollout2.settings.left.length > 0 && { settings: rollout2.settings.left },
    ...windowOf(rollout2),
    ...expectedOf2(rollout2.forecast)
  };
}
function groupStalls(rollout2) {
  const { forecast, fleetFrozen, frozen: frozen2, progress } = rollout2;
  if (progress?.isLate === true) return GROUP_CONDITIONS.Degraded(rollout2);
  const isOwn = frozen2.length > 0 && fleetFrozen.length === 0;
  return isOwn && forecast.reasons.has("Frozen") ? GROUP_CONDITIONS.Frozen(rollout2) : void 0;
}
function withMetadata(rollout2) {
  const { pending: pending2, waitsFor } = rollout2.metadata;
  const isWriting = !isRecorded(rollout2) || pending2.length > 0 && waitsFor === void 0;
  return {
    ...rollout2,
    isMoving: rollout2.isMoving || isWriting,
    unconfirmed: [.../* @__PURE__ */ new Set([...rollout2.unconfirmed, ...pending2])]
  };
}

// test/framework/oracle/told.ts
var STARTUP = "brupop.bottlerocket.aws/starting";
var WAITING3 = "brupop.bottlerocket.aws/update-pending";
var OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";
function statusesOf(snapshot, made, now) {
  const { config, groupObjects } = snapshot;
  const own2 = config === void 0 ? [] : [statusOfConfig(config, made, now)];
  return [
    ...own2,
    ...groupObjects.flatMap((object3) => {
      const rollout2 = made.groups.find(({ group: group2 }) => group2.name === object3.metadata.name);
      if (rollout2 === void 0) return [];
      const status = groupStatusOf(object3, { rollout: rollout2, before: object3.status, isWritten: true, now });
      return [{ kind: "status", name: object3.metadata.name, status }];
    })
  ];
}
function statusOfConfig(config, made, now) {
  return {
    kind: "status",
    name: "",
    status: statusOf({ config, plan: made, before: config.status, isWritten: true, now })
  };
}
var eventOf = (event2) => event2 && [event2.reason, event2.message, event2.warning ?? false];
function byName4(entries2) {
  return Object.fromEntries(entries2.toSorted(([a], [b]) => a < b ? -1 : 1));
}
function toldOf(made) {
  const { counts: counts2, stale, stuckNodes, orphanedNodes, uncreated, needsPodsOf, allPods, wakeAt, moreSpecs } = made;
  return {
    specs: byName4(
      made.specs.map(({ node, spec, outcome, event: event2 }) => [
        node.metadata.name,
        { spec, outcome, event: eventOf(event2) }
      ])
    ),
    conditions: byName4(
      made.conditions.map(({ node, progressing: progressing3, health, group: group2, event: event2 }) => [
        node.metadata.name,
        { progressing: progressing3, health, group: group2, event: eventOf(event2) }
      ])
    ),
    taints: byName4(made.taints.map(({ node, waiting: waiting3, startup }) => [node.metadata.name, { waiting: waiting3, startup }])),
    outOfService: byName4(
      made.outOfService.map(({ node, wanted, event: event2 }) => [node.metadata.name, { wanted, event: eventOf(event2) }])
    ),
    cleanups: byName4(
      made.cleanups.map(({ managedNode, kind, event: event2, kept }) => [
        managedNode.name,
        { kind, event: eventOf(event2), kept: eventOf(kept) }
      ])
    ),
    lost: byName4(made.lost.map(({ name, message, event: event2 }) => [name, { message, event: eventOf(event2) }])),
    metadata: made.metadata.changes.map(({ node, groups, evicts }) => [node.metadata.name, groups, evicts]),
    newNodes: made.newNodes.map(({ metadata: { name } }) => name),
    lookUps: made.lookUps.map(({ metadata: { name } }) => name),
    checks: {
      evaluate: made.checks.evaluate.map(keyOf3),
      read: made.checks.read.map(({ jobName }) => jobName),
      start: made.checks.nodes.flatMap(({ start, create }) => [...start, ...create].map(({ jobName }) => jobName)),
      events: made.checks.nodes.map(({ event: event2 }) => eventOf(event2))
    },
    members: [...made.members.keep],
    quorums: made.quorums,
    uncreated: [...uncreated],
    needsPodsOf: [...needsPodsOf].toSorted(),
    counts: counts2,
    stale,
    stuckNodes,
    orphanedNodes,
    allPods,
    wakeAt,
    moreSpecs
  };
}
function writesOf(made, now) {
  const unwritten = new Set(made.specs.map(({ node }) => node.metadata.name));
  const conditions2 = made.conditions.filter(({ node }) => !unwritten.has(node.metadata.name));
  return [
    ...made.specs.map((change) => {
      const { node, spec } = change;
      return { kind: "spec", name: node.metadata.name, spec, annotations: annotationsOf(change) };
    }),
    ...made.checks.nodes.flatMap(ofJobs),
    ...made.newNodes.map(({ metadata: { name } }) => ({ kind: "create", name })),
    ...made.cleanups.flatMap(ofCleanup),
    ...made.taints.flatMap(ofTaints),
    ...made.outOfService.flatMap(ofOutOfService),
    ...conditions2.map((change) => {
      const all = [conditionOf(change, now), ...healthConditions(change, now)];
      return { kind: "condition", name: change.node.metadata.name, status: { conditions: all, group: change.group } };
    })
  ];
}
function ofJobs({ node, shadow: shadow2, records, start, create }) {
  const { name } = node.metadata;
  const record9 = recordText({ ...shadow2.record, jobs: records ?? void 0 });
  const recorded2 = records === void 0 ? [] : [{ kind: "annotations", name, annotations: { [RECORD_ANNOTATION]: record9 } }];
  return [...recorded2, ...[...start, ...create].map(({ jobName, jobOf }) => ({ kind: "job", jobName, jobOf }))];
}
function ofCleanup({ managedNode: { name }, kind }) {
  const restored3 = kind === "DeleteShadow" ? [] : [{ kind: "restore", name }];
  return kind === "DeleteShadow" || kind === "Unmanage" ? [...restored3, { kind: "delete", name }] : restored3;
}
function ofTaints({ node, waiting: waiting3, startup }) {
  const { name } = node.metadata;
  return [
    { kind: "taint", name, key: WAITING3, effect: "PreferNoSchedule", on: waiting3 },
    { kind: "taint", name, key: STARTUP, effect: "NoSchedule", on: startup }
  ];
}
function ofOutOfService({ node, wanted: on }) {
  const { name } = node.metadata;
  const annotations = { "brupop.bottlerocket.aws/out-of-service": on ? "set" : null };
  return [
    { kind: "taint", name, key: OUT_OF_SERVICE, effect: "NoExecute", on },
    { kind: "node annotations", name, annotations }
  ];
}

// test/framework/oracle/planned.ts
var Planner = class {
  #memory = new NodeMemory();
  #suspended = new SuspendedPolicies();
  #unchanged = new UnchangedNodes();
  #kept = new KeptFacts();
  /** By the object that it was read from, as a watch cache has it. */
  #views = /* @__PURE__ */ new WeakMap();
  #policy;
  #groups;
  #pods = /* @__PURE__ */ new Map();
  #observed = /* @__PURE__ */ new Map();
  #allPods = NO_PODS_LISTED;
  #members = /* @__PURE__ */ new Map();
  #evaluations = /* @__PURE__ */ new Map();
  #jobs = /* @__PURE__ */ new Map();
  #seen;
  plan(objects) {
    this.#remember(objects);
    const snapshot = this.#snapshot(objects);
    const made = wholePlan(snapshot, objects.now, this.#kept);
    const slots = [...fleetStateOf(snapshot, objects.now, this.#kept.facts).slots.keys()].map(({ name }) => name).toSorted();
    const statuses = statusesOf(snapshot, made, objects.now);
    this.#look(made, objects);
    return { told: { ...toldOf(made), slots, statuses }, writes: [...writesOf(made, objects.now), ...statuses] };
  }
  /** What the watches of the cluster tell its memory. */
  #remember(objects) {
    const before = this.#seen;
    for (const name of /* @__PURE__ */ new Set([...objects.nodes.keys(), ...before?.nodes.keys() ?? []])) {
      this.#rememberNode(name, before, objects);
      if (before !== void 0) this.#rememberShadow(name, before, objects);
    }
    this.#seen = objects;
  }
  #rememberNode(name, before, objects) {
    const [node, shadow2] = [this.#node(objects, name), this.#shadow(objects, name)];
    const now = instantOf(objects);
    if (before?.nodes.get(name) !== objects.nodes.get(name)) this.#memory.node(name, node, shadow2, now);
    if (shadow2 !== void 0) this.#memory.settings(name, shadow2, now);
    const isGone = (one) => before?.[one].has(name) === true && !objects[one].has(name);
    if (isGone("nodes") || isGone("shadows")) this.#memory.missing(name, true, now);
    else if (node !== void 0 && shadow2 !== void 0) this.#memory.missing(name, false, now);
  }
  #rememberShadow(name, before, objects) {
    const [was, is4] = [before.shadows.get(name), objects.shadows.get(name)];
    if (was?.metadata.uid === is4?.metadata.uid) return;
    const now = instantOf(objects);
    if (was !== void 0) this.#memory.shadowDeleted(name, readShadow(was), now);
    if (is4 !== void 0) this.#memory.shadowAdded(name, this.#node(objects, name), now);
  }
  #node({ nodes }, name) {
    const raw = nodes.get(name);
    return raw && this.#view(raw, readNode);
  }
  #shadow({ shadows }, name) {
    const raw = shadows.get(name);
    return raw && this.#view(raw, readShadow);
  }
  #view(raw, read2) {
    const known = this.#views.get(raw);
    if (known !== void 0) return known;
    const view = read2(raw);
    this.#views.set(raw, view);
    return view;
  }
  /** Read anew when the specification or what is in force changes, as the watch cache does. */
  #policyOf(config) {
    const of = JSON.stringify([config?.metadata.generation, config?.spec, config?.status?.inForce]);
    if (this.#policy?.of === of) return this.#policy.policy;
    const policy = readPolicy(config, config === void 0 ? this.#policy?.policy : void 0);
    this.#policy = { of, policy };
    return policy;
  }
  #groupsOf(objects, fleet) {
    const of = JSON.stringify(
      objects.map(({ metadata: metadata13, spec, status }) => [
        metadata13.generation,
        spec,
        status?.rendered,
        status?.confirmedGeneration
      ])
    );
    if (this.#groups?.of === of && this.#groups.fleet === fleet) return this.#groups.groups;
    const groups = readNodeGroups(objects, fleet);
    this.#groups = { of, fleet, groups };
    return groups;
  }
  #snapshot(objects) {
    const { now, isLost, skewMs } = objects;
    const config = objects.config && readBrupopConfig(objects.config);
    const fleet = this.#policyOf(config);
    const groupObjects = [...objects.groups.values()].map(readNodeGroup);
    const groups = this.#groupsOf(groupObjects, fleet);
    const isSuspended = isLost || isClockWrong(skewMs);
    const loss = isSuspended ? { ...CONNECTED, lost: true, lostUntil: now } : CONNECTED;
    const nodes = [...objects.nodes.keys()].flatMap((name) => this.#node(objects, name) ?? []);
    const suspended = this.#suspended.of(this.#managedNodes(objects, { fleet, groups }), fleet, loss);
    return {
      managedNodes: this.#unchanged.recognised(suspended.managedNodes),
      nodes,
      config,
      policy: suspended.policy,
      groups,
      groupObjects,
      metadataNotes: /* @__PURE__ */ new Map(),
      pods: this.#pods,
      observed: this.#observed,
      allPods: this.#allPods,
      memberPods: this.#members,
      budgets: indexedBudgets(objects.budget === void 0 ? [] : [slimBudget(objects.budget)]),
      watchLags: [{ resource: "nodes", ms: objects.lagMs }],
      connectivity: isLost ? { ...CONNECTED, lost: true, lostUntil: now } : CONNECTED,
      clockSkewMs: skewMs,
      checks: this.#checks(),
      ownNamespace: NAMESPACE,
      mayForce: true,
      ownNode: "node-3"
    };
  }
  #managedNodes(objects, rules) {
    const now = instantOf(objects);
    const names = [.../* @__PURE__ */ new Set([...objects.nodes.keys(), ...objects.shadows.keys()])];
    return names.flatMap((name) => {
      const [found, shadow2] = [this.#node(objects, name), this.#shadow(objects, name)];
      const node = found && this.#memory.asObserved(found);
      if (shadow2 === void 0 && (node === void 0 || !isManaged(node) && !bearsOwnership(node))) return [];
      const writeRejection = objects.rejections.get(name);
      const memory = this.#memory.of(name, now);
      const own2 = rulesFor({ node, shadow: shadow2 }, rules);
      const rejected = writeRejection === void 0 ? {} : { writeRejection };
      return [
        {
          name,
          node,
          shadow: shadow2,
          ...own2,
          evictedSince: this.#memory.evictedSince({ node, ...own2 }, now),
          leaseExpired: node?.isUnreachable,
          ...memory,
          ...rejected
        }
      ];
    });
  }
  #checks() {
    return { namespace: "brupop-checks", evaluations: this.#evaluations, jobs: this.#jobs };
  }
  /** Does what the leader does after a plan. */
  #look(made, objects) {
    const { now, pods } = objects;
    const kept = [...this.#pods].filter(([name]) => made.needsPodsOf.has(name));
    const listed = made.lookUps.map((node) => [node.metadata.name, podsOn(node, pods, now)]);
    this.#pods = new Map([...kept, ...listed]);
    const observed = listed.map(([name, of]) => [name, observedPods(of, this.#observed.get(name))]);
    this.#observed = new Map([...[...this.#observed].filter(([name]) => made.observes.has(name)), ...observed]);
    if (made.allPods === "forget") this.#allPods = { ...NO_PODS_LISTED, nextAt: this.#allPods.nextAt };
    const placed = made.allPods === "list" ? pods.flatMap((pod) => placedPod(pod) ?? []) : [];
    if (made.allPods === "list")
      this.#allPods = { pods: placed, seenAt: now, asOf: now, problem: void 0, nextAt: now + 5e3 };
    const members2 = pods.map((pod) => slimPod(pod)).filter(({ metadata: metadata13 }) => metadata13.labels?.["app"] === "db");
    const fresh = made.members.list.map(
      (one) => [membersKey(one), { pods: members2, asOf: now, problem: void 0, nextAt: now + 5e3 }]
    );
    this.#members = new Map([...[...this.#members].filter(([key2]) => made.members.keep.has(key2)), ...fresh]);
    this.#evaluations = new Map([
      ...this.#evaluations,
      ...made.checks.evaluate.map((probe) => [keyOf3(probe), this.#answer(probe, objects)])
    ]);
    const read2 = made.checks.read.map((ref) => {
      const job3 = objects.jobs.get(ref.jobName);
      const state2 = job3?.state ?? "Gone";
      return [
        ref.jobName,
        { state: state2, jobOf: ref.jobOf, since: this.#jobs.get(ref.jobName)?.since ?? now, seenAt: now }
      ];
    });
    this.#jobs = new Map([...this.#jobs, ...read2]);
  }
  #answer(probe, { now, checksPass: checksPass2 }) {
    const passed = checksPass2 || probe.kind === "cronJob";
    const before = this.#evaluations.get(keyOf3(probe));
    return {
      passed,
      found: passed ? "all is well" : "too many errors",
      at: now,
      since: before?.passed === passed ? before.since : now
    };
  }
};
function podsOn({ metadata: { name, uid } }, all, now) {
  const pods = all.map((pod) => slimPod(pod)).filter(({ node }) => node === name);
  const namespaces = new Set(pods.map(({ metadata: metadata13 }) => metadata13.namespace ?? ""));
  return { nodeUID: uid, pods, namespaces, seenAt: now, problem: void 0, retryAt: 0 };
}
function instantOf({ now }) {
  return { wall: now, monotonic: now - START };
}

// test/framework/oracle/fleet.ts
var NODES2 = 6;
var RETRY = "brupop.bottlerocket.aws/retry";
var Fleet = class {
  #objects;
  #hosts;
  #uids = 0;
  #planner = new Planner();
  constructor() {
    const nodes = Array.from({ length: NODES2 }, (_, i) => newNode(i, `uid-node-${i}`));
    const shadows = nodes.map(
      (node) => [node.metadata.name, newShadow(node, `uid-${node.metadata.name}-0`, START)]
    );
    this.#hosts = new Map(
      nodes.map(({ metadata: metadata13 }) => [metadata13.name, { running: "1.20.0", offered: "1.21.0", boots: 0, settings: {} }])
    );
    const nothing = {
      budget: void 0,
      isLost: false,
      lagMs: 0,
      skewMs: 0,
      checksPass: true,
      jobs: /* @__PURE__ */ new Map(),
      rejections: /* @__PURE__ */ new Map()
    };
    const byName5 = new Map(nodes.map((node) => [node.metadata.name, node]));
    const own2 = { config: newObject("cluster", "config", {}, 1), groups: /* @__PURE__ */ new Map(), pods: [] };
    this.#objects = { now: START, nodes: byName5, shadows: new Map(shadows), ...own2, ...nothing };
    for (const name of byName5.keys()) this.#agent(name, "acts");
  }
  /** Lets one event happen, and the planner plan. Returns what it says, as JSON. */
  step(event2) {
    this.#happen(event2);
    const { told, writes } = this.#planner.plan(this.#objects);
    for (const write of writes) this.#write(write);
    return told;
  }
  #set(changes) {
    this.#objects = { ...this.#objects, ...changes };
  }
  #happen(event2) {
    switch (event2.kind) {
      case "lead":
        this.#planner = new Planner();
        return void 0;
      case "config":
        return this.#configure(event2.spec);
      case "groups":
        return this.#setGroups(event2.groups);
      case "jobs":
        return this.#end(event2.result);
      case "members": {
        const since = timeOf(this.#objects.now);
        return this.#replacePods(
          "member",
          event2.ready.map((ready3, i) => newPod("member", `node-${i}`, since, ready3))
        );
      }
      default:
        return isOfNodes(event2) ? this.#happenToNodes(event2) : this.#set(around(event2, this.#objects.now));
    }
  }
  #happenToNodes(event2) {
    if (event2.kind === "offer") {
      for (const index of event2.nodes) this.#host(`node-${index}`, { offered: event2.version });
      return;
    }
    const name = `node-${event2.node}`;
    const { now } = this.#objects;
    if (event2.kind === "agent") this.#agent(name, event2.act);
    else if (event2.kind === "lose") this.#lose(name, event2.what);
    else if (event2.kind === "pods")
      this.#replacePods(
        name,
        event2.pods.map((kind) => newPod(kind, name, timeOf(now)))
      );
    else if (event2.kind === "reject") this.#reject(name, event2.message);
    else if (event2.kind === "retry") this.#annotateShadow(name, { [RETRY]: event2.version });
    else this.#node(name, (node) => changed2(node, event2, now));
  }
  #configure(spec) {
    const { generation = 0 } = this.#objects.config?.metadata ?? {};
    const { status } = this.#objects.config ?? {};
    const next = spec && { ...newObject("cluster", "config", spec, generation + 1), ...status && { status } };
    this.#set({ config: next });
  }
  #setGroups(groups) {
    const named4 = groups.map(({ name, spec }) => {
      const before = this.#objects.groups.get(name);
      const whole3 = { nodeSelector: { matchLabels: { pool: name } }, ...spec };
      const next = newObject(name, `group-${name}`, whole3, (before?.metadata.generation ?? 0) + 1);
      return [name, { ...next, ...before?.status && { status: before.status } }];
    });
    this.#set({ groups: new Map(named4) });
  }
  #agent(name, what) {
    const [node, shadow2, host] = [
      this.#objects.nodes.get(name),
      this.#objects.shadows.get(name),
      this.#hosts.get(name)
    ];
    if (node === void 0 || shadow2 === void 0 || host === void 0) return;
    const next = act({ node, shadow: shadow2, host }, what, this.#objects.now);
    this.#hosts = new Map(this.#hosts).set(name, next.host);
    this.#node(name, () => next.node);
    this.#shadow(name, () => next.shadow);
  }
  #host(name, changes) {
    const host = this.#hosts.get(name);
    if (host !== void 0) this.#hosts = new Map(this.#hosts).set(name, { ...host, ...changes });
  }
  #lose(name, what) {
    const { nodes, shadows } = this.#objects;
    const others = (all) => new Map([...all].filter(([key2]) => key2 !== name));
    if (what === "shadow") return this.#set({ shadows: others(shadows) });
    this.#uids += 1;
    const index = Number(name.slice("node-".length));
    return this.#set({
      nodes: nodes.has(name) ? others(nodes) : new Map(nodes).set(name, newNode(index, `uid-${name}-${this.#uids}`))
    });
  }
  /** Those whose names contain `of`. */
  #replacePods(of, pods) {
    const kept = this.#objects.pods.filter((pod) => !pod.metadata.name.includes(of));
    this.#set({ pods: [...kept, ...pods] });
  }
  #reject(name, message) {
    const rejections = new Map([...this.#objects.rejections].filter(([key2]) => key2 !== name));
    if (message !== null) rejections.set(name, message);
    this.#set({ rejections });
  }
  #end(state2) {
    const [name] = [...this.#objects.jobs].find(([, job3]) => job3.state === "Running") ?? [];
    if (name === void 0) return;
    const jobs2 = [...this.#objects.jobs].map(([key2, job3]) => [key2, key2 === name ? { ...job3, state: state2 } : job3]);
    this.#set({ jobs: new Map(jobs2) });
  }
  #node(name, change) {
    const node = this.#objects.nodes.get(name);
    if (node !== void 0) this.#set({ nodes: new Map(this.#objects.nodes).set(name, change(node)) });
  }
  #shadow(name, change) {
    const shadow2 = this.#objects.shadows.get(name);
    if (shadow2 !== void 0) this.#set({ shadows: new Map(this.#objects.shadows).set(name, change(shadow2)) });
  }
  #annotateShadow(name, patch) {
    this.#shadow(name, (shadow2) => ({ ...shadow2, metadata: merged2(shadow2.metadata, patch) }));
  }
  #write(write) {
    switch (write.kind) {
      case "spec":
        return this.#shadow(write.name, (shadow2) => {
          const { metadata: metadata13 } = shadow2;
          const next = {
            ...merged2(metadata13, write.annotations),
            generation: metadata13.generation + 1,
            resourceVersion: `${metadata13.resourceVersion}+`
          };
          return { ...shadow2, spec: write.spec, metadata: next };
        });
      case "condition":
        return this.#shadow(write.name, (shadow2) => ({ ...shadow2, status: { ...shadow2.status, ...write.status } }));
      case "annotations":
        return this.#annotateShadow(write.name, write.annotations);
      case "node annotations":
        return this.#node(write.name, (node) => ({ ...node, metadata: merged2(node.metadata, write.annotations) }));
      case "create":
        return this.#create(write.name);
      case "delete":
        return this.#lose(write.name, "shadow");
      case "restore":
        return this.#node(write.name, uncordoned);
      case "taint":
        return this.#node(write.name, (node) => tainted(node, write.key, write.effect, write.on));
      case "status":
        return this.#setStatus(write.name, write.status);
      default:
        return this.#set({
          jobs: new Map(this.#objects.jobs).set(write.jobName, {
            state: "Running",
            jobOf: write.jobOf,
            since: this.#objects.now
          })
        });
    }
  }
  #create(name) {
    const node = this.#objects.nodes.get(name);
    if (node === void 0 || this.#objects.shadows.has(name)) return;
    this.#uids += 1;
    const shadow2 = newShadow(node, `uid-${name}-shadow-${this.#uids}`, this.#objects.now);
    this.#set({ shadows: new Map(this.#objects.shadows).set(name, shadow2) });
  }
  /** @param name - of a group; empty: the configuration */
  #setStatus(name, status) {
    const { config, groups } = this.#objects;
    const next = { status };
    if (name === "") return this.#set({ config: config && { ...config, ...next } });
    const group2 = groups.get(name);
    return group2 === void 0 ? void 0 : this.#set({ groups: new Map(groups).set(name, { ...group2, ...next }) });
  }
};
function isOfNodes(event2) {
  return "node" in event2 || "nodes" in event2;
}
function around(event2, now) {
  switch (event2.kind) {
    case "time":
      return { now: now + event2.seconds * 1e3 };
    case "budget":
      return { budget: newBudget(event2.allows, event2.spec) };
    case "connectivity":
      return { isLost: event2.lost };
    case "watch":
      return { lagMs: event2.lagMs };
    case "clock":
      return { skewMs: event2.skewMs };
    default:
      return { checksPass: event2.passed };
  }
}
function changed2(node, event2, now) {
  switch (event2.kind) {
    case "ready":
      return withReady(node, event2.ready ? "True" : "Unknown", now);
    case "condition":
      return withCondition(node, event2.type, event2.status, now);
    case "cordon":
      return { ...node, spec: { ...node.spec, unschedulable: event2.on } };
    case "label":
      return {
        ...node,
        metadata: { ...node.metadata, labels: patched(node.metadata.labels, { [event2.label]: event2.value }) }
      };
    case "annotate":
      return { ...node, metadata: merged2(node.metadata, { [event2.annotation]: event2.value }) };
    default:
      return tainted(node, event2.key, "NoSchedule", event2.on);
  }
}
function tainted(node, key2, effect, on) {
  const others = node.spec.taints.filter((taint2) => taint2.key !== key2);
  return { ...node, spec: { ...node.spec, taints: on ? [...others, { key: key2, effect }] : others } };
}
function patched(values2, patch) {
  const entries2 = Object.entries({ ...values2, ...patch });
  return Object.fromEntries(entries2.filter((entry2) => entry2[1] !== null));
}
function merged2(metadata13, patch) {
  return { ...metadata13, annotations: patched(metadata13.annotations, patch) };
}
// Annotate the CommonJS export names for ESM import in node:
0 && (module.exports = {
  Fleet
});
