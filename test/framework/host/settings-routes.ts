import { type Answer, json, type RequestHead, text } from './http-message.ts';
import type { Route, RouteContext } from './routes.ts';
import { missingField, nest, type Settings, withDefaults } from './settings.ts';

/** Larger request bodies are rejected before they are read. */
export const BODY_LIMIT = 2_097_152;

const NO_CONTENT: Answer = { status: 204 };
const KEY_PAIR_ERROR =
  'Unable to match your input to the data model.  We may not have enough type information.  ' +
  'Please try the --json input form.  Cause: Error during deserialization: ';
const NOTHING_PENDING = text(422, 'Tried to commit with no pending changes');

function transaction({ query }: RequestHead): string {
  return query.get('tx') ?? 'default';
}

function badKey(key: string): Answer | undefined {
  const character = /[^\w/."-]/.exec(key)?.[0];
  if (character === undefined) return undefined;
  const reason = `Key name '${key}' has invalid format: invalid character in key: '${character}'`;
  return text(400, `Unable to make data key '${key}': ${reason}`);
}

/** The keys of a query, or the rejection of one that is no key. */
function keysOf(keys: string): string[] | Answer {
  if (keys === '') return text(400, "Input 'keys' cannot be empty");
  const wanted = keys.split(',');
  return wanted.map(badKey).find((answer) => answer !== undefined) ?? wanted;
}

const DATASTORE = '/var/lib/bottlerocket/datastore/current';

/** Core kit 11.0.0: a key whose file is not there is not set, and everything else needs the folder. */
function withoutDatastore({ method, path, query }: RequestHead): Answer {
  if (method === 'GET' && query.has('keys')) return json({});
  return text(
    500,
    `Data store error during ${path}: Data store integrity violation at ${DATASTORE}/live: Live datastore missing`,
  );
}

/** `read_file_for_key` of the data store, in which a setting is a file and an object a folder. */
function readError(key: string, live: Settings['live']): Answer | undefined {
  const path = `${key}.`;
  const isFile = [...live.keys()].some((one) => one !== key && path.startsWith(`${one}.`));
  const isFolder = [...live.keys()].some((one) => one.startsWith(path));
  if (!isFile && !isFolder) return undefined;
  const why = isFile ? 'Not a directory (os error 20)' : 'Is a directory (os error 21)';
  return text(500, `Data store error during get_key: Reading key '${key}' failed: ${why}`);
}

function getByKeys({ live }: Settings, keys: string): Answer {
  const wanted = keysOf(keys);
  if (!Array.isArray(wanted)) return wanted;
  const unreadable = wanted.map((key) => readError(key, live)).find((answer) => answer !== undefined);
  if (unreadable !== undefined) return unreadable;
  const found = withDefaults(new Map([...live].filter(([key]) => wanted.includes(key))));
  const missing = missingField([...found.keys()]);
  if (missing === undefined) return json(nest(found));
  return text(500, `Error deserializing given keys: Error during deserialization: ${missing} `);
}

function getSettings(settings: Settings, { query }: RequestHead): Answer {
  const { live } = settings;
  const keys = query.get('keys');
  const prefix = query.get('prefix');
  if (keys !== null) return getByKeys(settings, keys);
  if (prefix === '') return text(400, "Input 'prefix' cannot be empty");
  if (prefix === null && live.size === 0) return text(404, "Found no 'settings' in datastore");
  const start = prefix === null || prefix.startsWith('settings') ? (prefix ?? '') : `settings.${prefix}`;
  return json(nest([...live].filter(([key]) => key.startsWith(start))));
}

function getAffectedServices({ metadata }: RouteContext, { query }: RequestHead): Answer {
  const keys = query.get('keys');
  if (keys === null) return text(400, "Missing required input 'keys'");
  const wanted = keysOf(keys);
  if (!Array.isArray(wanted)) return wanted;
  return json(Object.fromEntries(wanted.map((key) => [key, metadata.affectedServices(key)])));
}

function getServices({ metadata: { services } }: RouteContext, { query }: RequestHead): Answer {
  const names = query.get('names')?.split(',');
  const prefix = query.get('prefix');
  if (names?.[0] === '') return text(400, "Input 'names' cannot be empty");
  const unknown = names?.find((name) => !services.has(name));
  if (unknown !== undefined) return text(404, `Found no 'services.${unknown}' in datastore`);
  if (prefix === '') return text(400, "Input 'prefix' cannot be empty");
  const start = prefix === null || prefix.startsWith('services') ? (prefix ?? '') : `services.${prefix}`;
  const isWanted = (name: string): boolean => names?.includes(name) ?? `services.${name}`.startsWith(start);
  return json(Object.fromEntries([...services].filter(([name]) => isWanted(name))));
}

function patch(settings: Settings, head: RequestHead, body: string): Answer {
  const type = (head.headers.get('content-type') ?? '').split(';')[0] ?? '';
  if (!/^application\/(?:[\w.-]+\+)?json$/.test(type)) {
    return { status: 400, contentType: 'text/plain; charset=utf-8', body: 'Content type error' };
  }
  const error = settings.patch(transaction(head), body);
  if (error === undefined) return NO_CONTENT;
  return { status: error.status, body: error.text, ...(error.contentType && { contentType: error.contentType }) };
}

function guess(value: string): unknown {
  return /^(?:true|false|\d+(?:\.\d+)?)$/.test(value) ? (JSON.parse(value) as unknown) : value;
}

/**
 * `PATCH /settings/keypair`, for keys of two segments and less: `updates.version-lock=1.2.3`,
 * `motd=hi`.
 */
function patchKeyPairs(settings: Settings, head: RequestHead, body: string): Answer {
  const { request_payload: pairs } = JSON.parse(body) as { request_payload: string[] };
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    if (equals === -1) return text(400, `Failed to split the string: ${pair}`);
    const [first = '', second] = pair
      .slice(0, equals)
      .replace(/^settings\./, '')
      .split('.', 2);
    const value = guess(pair.slice(equals + 1));
    const nested = second === undefined ? { [first]: value } : { [first]: { [second]: value } };
    const error = settings.patch(transaction(head), JSON.stringify(nested));
    if (error !== undefined) return text(error.status, error.text.replace(/^Json deserialize error: /, KEY_PAIR_ERROR));
  }
  return NO_CONTENT;
}

function commit({ settings }: RouteContext, head: RequestHead): Answer {
  const keys = settings.commit(transaction(head));
  return keys === undefined ? NOTHING_PENDING : json(keys);
}

function commitAndApply(context: RouteContext, head: RequestHead): Answer {
  const keys = context.settings.commit(transaction(head));
  return keys === undefined ? NOTHING_PENDING : (context.applySettings(keys) ?? json(keys));
}

/**
 * `null` after a 204 that announces no body: a fault of the real server that breaks Node's HTTP
 * client.
 */
function apply(context: RouteContext, { query }: RequestHead): Answer {
  const keys = query.get('keys')?.split(',');
  return context.applySettings(keys) ?? { status: 204, contentType: 'application/json', body: 'null' };
}

/** The settings routes: reading, what a change affects, staging, committing and applying. */
export function settingsRoutes(context: RouteContext): [string, Route][] {
  return routesOf(context).map(([name, route]) => [name, unlessMissing(context, route)]);
}

/** A route that the host lacks answers as any unknown path. */
function unlessMissing({ faults }: RouteContext, route: Route): Route {
  return (head, body) => {
    const { noSettings, datastoreMissing } = faults.values;
    if (noSettings === true) return text(404);
    return datastoreMissing === true ? withoutDatastore(head) : route(head, body);
  };
}

function routesOf(context: RouteContext): [string, Route][] {
  const { settings } = context;
  return [
    ['GET /settings', (head) => getSettings(settings, head)],
    ['GET /metadata/affected-services', (head) => getAffectedServices(context, head)],
    ['GET /services', (head) => getServices(context, head)],
    ['PATCH /settings', (head, body) => patch(settings, head, body)],
    ['PATCH /settings/keypair', (head, body) => patchKeyPairs(settings, head, body)],
    ['GET /tx', (head) => json(nest(settings.pending(transaction(head))))],
    ['DELETE /tx', (head) => json(settings.drop(transaction(head)))],
    ['GET /tx/list', () => json(settings.transactions)],
    ['POST /tx/commit', (head) => commit(context, head)],
    ['POST /tx/apply', (head) => apply(context, head)],
    ['POST /tx/commit_and_apply', (head) => commitAndApply(context, head)],
  ];
}

/** Whether a route reads its request's body. */
export function readsBody({ method, path }: RequestHead): boolean {
  return method === 'PATCH' && (path === '/settings' || path === '/settings/keypair');
}

/** The rejection of a body whose length is too large, before it is read. */
export function refuseLargeBody(head: RequestHead): Answer | undefined {
  const length = Number(head.headers.get('content-length') ?? 0);
  if (!readsBody(head) || length <= BODY_LIMIT) return undefined;
  const body = `JSON payload (${length} bytes) is larger than allowed (limit: ${BODY_LIMIT} bytes).`;
  return { status: 413, contentType: 'text/plain; charset=utf-8', body };
}
