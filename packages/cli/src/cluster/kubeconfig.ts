/**
 * Reads kubeconfigs as kubectl does: of several files, the first that has an entry or a current context counts, files of
 * KUBECONFIG that do not exist are left out, and paths are relative to the folder of their file
 * (Kubernetes "Organizing Cluster Access Using kubeconfig Files").
 */
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import { type Document, parseAllDocuments } from 'yaml';
import { processEnv } from '@brupop/shared/runtime/env';
import { messageOf } from '@brupop/shared/runtime/errors';
import { UsageError } from './errors.ts';

export interface Kubeconfig {
  /** Undefined: KUBECONFIG, or else ~/.kube/config. */
  readonly kubeconfig?: string | undefined;
  /** Undefined: the current one. */
  readonly context?: string | undefined;
}

/** Fields of a cluster that are read here; the others are read by the client library. */
export interface ClusterEntry {
  readonly server?: string;
  readonly 'certificate-authority'?: string;
  readonly 'certificate-authority-data'?: string;
  readonly 'insecure-skip-tls-verify'?: boolean;
  readonly 'tls-server-name'?: string;
  readonly 'proxy-url'?: string;
  readonly extensions?: readonly { readonly name?: string; readonly extension?: unknown }[];
}

/** A program that prints credentials. */
export interface ExecConfig {
  readonly apiVersion?: string;
  readonly command?: string;
  readonly args?: readonly string[] | null;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
  readonly interactiveMode?: string;
  readonly provideClusterInfo?: boolean;
  readonly installHint?: string;
}

/** Of OpenID Connect, in kubectl itself. */
export interface AuthProvider {
  readonly name?: string;
  readonly config?: Readonly<Record<string, string>> | null;
}

export interface UserEntry {
  readonly token?: string;
  readonly tokenFile?: string;
  readonly 'auth-provider'?: AuthProvider;
  readonly exec?: ExecConfig;
  readonly 'as-groups'?: readonly string[];
  readonly 'as-uid'?: string;
  readonly 'as-user-extra'?: Readonly<Record<string, readonly string[]>>;
}

/** Whom to call, and as whom. */
export interface Access {
  readonly context: string;
  readonly cluster: ClusterEntry & { readonly server: string };
  readonly user: UserEntry;
}

interface Files {
  readonly 'current-context'?: string;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  readonly users: ReadonlyMap<string, UserEntry>;
  readonly contexts: ReadonlyMap<string, { readonly cluster?: string; readonly user?: string }>;
}

const HOME_FILE = join(homedir(), '.kube', 'config');

type Fields = Record<string, unknown>;

/** Throws UsageError for a file, a context or a cluster that does not exist, or cannot be read. */
export function readAccess({ kubeconfig, context }: Kubeconfig): Access {
  const own = kubeconfig === undefined && context === undefined ? accessOfPod() : undefined;
  if (own !== undefined) return own;
  const files = merged(pathsOf(kubeconfig).map((path) => readOne(path)));
  const name = context ?? files['current-context'] ?? '';
  const found = files.contexts.get(name);
  if (found === undefined) throw unknownContext(name, context, [...files.contexts.keys()]);
  // A context may have no user.
  const user = found.user ? files.users.get(found.user) : {};
  if (user === undefined) throw unknownEntry(name, 'user', found.user);
  return { context: name, cluster: clusterOf(files, name, found.cluster), user };
}

function clusterOf(files: Files, context: string, name = ''): Access['cluster'] {
  const cluster = files.clusters.get(name);
  if (cluster === undefined) throw unknownEntry(context, 'cluster', name);
  const { server } = cluster;
  if (typeof server === 'string' && URL.canParse(server)) return { ...cluster, server };
  throw new UsageError(`context ${context}: expected the URL of a server, found ${JSON.stringify(server)}`);
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** That of the pod in which this runs, without a kubeconfig. */
function accessOfPod(): Access | undefined {
  const { KUBECONFIG = '', KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = processEnv();
  const [tokenFile, ca] = [join(SERVICE_ACCOUNT, 'token'), join(SERVICE_ACCOUNT, 'ca.crt')];
  if (KUBECONFIG !== '' || host === undefined || !existsSync(tokenFile) || existsSync(HOME_FILE)) return undefined;
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  return { context: 'in-cluster', cluster: { server, 'certificate-authority': ca }, user: { tokenFile } };
}

function unknownContext(name: string, asked: string | undefined, names: readonly string[]): UsageError {
  const known = names.join(', ') || 'none';
  if (asked !== undefined) return new UsageError(`--context: expected one of ${known}, found "${name}"`);
  return new UsageError(
    name === ''
      ? `the kubeconfig has no current context: name one with --context; there are: ${known}`
      : `the current context "${name}" is not in the kubeconfig: name another with --context; there are: ${known}`,
  );
}

function unknownEntry(context: string, kind: string, name = ''): UsageError {
  return new UsageError(`context ${context}: expected the ${kind} "${name}" in the kubeconfig, found none`);
}

/** Throws UsageError when there is none. */
function pathsOf(given: string | undefined): string[] {
  if (given !== undefined) return [resolve(given)];
  const { KUBECONFIG = '' } = processEnv();
  const named = KUBECONFIG.split(delimiter).filter((path) => path !== '');
  const paths = named.length === 0 ? [HOME_FILE] : named;
  const existing = paths.filter((path) => existsSync(path));
  if (existing.length === 0)
    throw new UsageError(`there is no kubeconfig: expected ${paths.join(' or ')}; name one with --kubeconfig`);
  return existing.map((path) => resolve(path));
}

function readOne(path: string): Files {
  let document: Document | undefined;
  let text = '';
  try {
    text = readFileSync(path, 'utf8');
    // As kubectl: the first document, in which the last of two fields counts.
    [document] = parseAllDocuments(text, { prettyErrors: false, uniqueKeys: false, merge: true });
  } catch (error) {
    throw new UsageError(`the kubeconfig cannot be read: ${messageOf(error)}`);
  }
  const [problem] = document?.errors ?? [];
  // The message of the error quotes the text, which may be a token.
  if (problem !== undefined) {
    const line = text.slice(0, problem.pos[0]).split('\n').length;
    throw new UsageError(`the kubeconfig ${path} cannot be read: ${problem.code} in line ${line}`);
  }
  const content = (document?.toJS() ?? {}) as Fields;
  const current = content['current-context'];
  return {
    ...(typeof current === 'string' && current !== '' && { 'current-context': current }),
    clusters: entries(content['clusters'], 'cluster', (one) => absolute(one, path, ['certificate-authority'])),
    users: entries(content['users'], 'user', (one) => absoluteUser(one, path)),
    contexts: entries(content['contexts'], 'context', (one) => one),
  };
}

/** The first of several entries with the same name counts. */
function entries<T extends object>(list: unknown, key: string, read: (entry: Fields) => Fields): Map<string, T> {
  const found = new Map<string, T>();
  for (const one of Array.isArray(list) ? (list as readonly (Fields | null)[]) : []) {
    const name = one?.['name'];
    if (typeof name === 'string' && !found.has(name)) found.set(name, read(given(one?.[key])) as T);
  }
  return found;
}

/** The fields that say something: tools also write empty ones. */
function given(entry: unknown): Fields {
  return Object.fromEntries(Object.entries(entry ?? {}).filter(([, value]) => value !== null && value !== ''));
}

function absolute(entry: Fields, file: string, keys: readonly string[]): Fields {
  const changed = keys.flatMap((key) => {
    const value = entry[key];
    return typeof value === 'string' ? [[key, resolve(dirname(file), value)] as const] : [];
  });
  return { ...entry, ...Object.fromEntries(changed) };
}

/** A program without a folder in its name is looked up in PATH. */
function absoluteUser(entry: Fields, file: string): Fields {
  const user = absolute(entry, file, ['client-certificate', 'client-key', 'tokenFile']);
  const exec = user['exec'] as ExecConfig | null | undefined;
  if (typeof exec?.command !== 'string' || isAbsolute(exec.command) || !exec.command.includes('/')) return user;
  return { ...user, exec: { ...exec, command: resolve(dirname(file), exec.command) } };
}

function merged(files: readonly Files[]): Files {
  // Of the same key in a Map, the last counts.
  const all = <T>(of: (file: Files) => ReadonlyMap<string, T>): Map<string, T> =>
    new Map(files.toReversed().flatMap((file) => [...of(file)]));
  const current = files.find((file) => file['current-context'] !== undefined)?.['current-context'];
  return {
    ...(current !== undefined && { 'current-context': current }),
    clusters: all((file) => file.clusters),
    users: all((file) => file.users),
    contexts: all((file) => file.contexts),
  };
}
