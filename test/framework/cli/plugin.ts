/** `kubectl brupop`, bundled, with kubeconfigs of its own in a folder of its own. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stop } from 'esbuild';
import { parseAllDocuments } from 'yaml';
import { bundle, CLI } from '../../../scripts/bundle.ts';
import type { Connection } from '../control-plane/connection.ts';

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const RENDER = join(import.meta.dirname, '../../integration/chart/renders/default/render.yaml');

export interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A process that goes on until it is ended. */
export interface Running {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  /** Sends the signal, and returns the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

export class Plugin {
  readonly folder = mkdtempSync(join(tmpdir(), 'brupop-cli-'));
  readonly program = join(this.folder, 'kubectl-brupop.mjs');
  readonly cluster: Pick<Connection, 'url' | 'caFile' | 'api'>;
  /** Of the contexts with the same names. The first is the current one. */
  readonly users: Record<string, object> = {};
  /** Of the environment, besides. */
  readonly env: Record<string, string> = {};
  readonly #children: ChildProcess[] = [];

  private constructor(cluster: Pick<Connection, 'url' | 'caFile' | 'api'>) {
    this.cluster = cluster;
  }

  static async build(cluster: Pick<Connection, 'url' | 'caFile' | 'api'>): Promise<Plugin> {
    const plugin = new Plugin(cluster);
    writeFileSync(plugin.program, (await bundle(CLI, 'test')).contents);
    await stop();
    return plugin;
  }

  /** Ends what still runs, and removes the folder. */
  remove(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true });
  }

  /** @param cluster - fields of the cluster, besides and instead of those of the test's */
  kubeconfig(cluster: object = {}, name = 'kubeconfig'): string {
    const path = join(this.folder, name);
    const names = Object.keys(this.users);
    const given = { server: this.cluster.url, 'certificate-authority': this.cluster.caFile, ...cluster };
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': names[0],
      clusters: [{ name: 'test', cluster: given }],
      users: names.map((one) => ({ name: one, user: this.users[one] })),
      contexts: names.map((one) => ({ name: one, context: { cluster: 'test', user: one } })),
    };
    writeFileSync(path, JSON.stringify(config), { mode: 0o600 });
    return path;
  }

  async run(...args: string[]): Promise<Result> {
    return await this.runWith({}, ...args);
  }

  async runWith(env: Record<string, string>, ...args: string[]): Promise<Result> {
    return await this.#execute(env, args, () => undefined);
  }

  /** Writes `input` to its standard input after `delayMs`. */
  async runWithInput(input: string, delayMs: number, ...args: string[]): Promise<Result> {
    return await this.#execute({}, args, ({ stdin }) => setTimeout(() => stdin?.end(input), delayMs));
  }

  async #execute(
    env: Record<string, string>,
    args: readonly string[],
    onStart: (child: ChildProcess) => void,
  ): Promise<Result> {
    const all = { ...process.env, ...this.env, ...env, KUBECONFIG: env['KUBECONFIG'] ?? this.kubeconfig() };
    const options = { env: all, maxBuffer: 2 ** 26, cwd: this.folder };
    return await new Promise((resolve) => {
      const child = execFile(process.execPath, [this.program, ...args], options, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      });
      onStart(child);
    });
  }

  start(env: Record<string, string>, ...args: string[]): Running {
    const all = { ...process.env, ...this.env, ...env, KUBECONFIG: env['KUBECONFIG'] ?? this.kubeconfig() };
    const child = spawn(process.execPath, [this.program, ...args], { env: all, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#children.push(child);
    const [texts, warnings]: [string[], string[]] = [[], []];
    child.stdout.setEncoding('utf8').on('data', (text: string) => texts.push(text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => warnings.push(text));
    const closed = once(child, 'close') as Promise<[number | null]>;
    return {
      child,
      stdout: () => texts.join(''),
      stderr: () => warnings.join(''),
      end: async (signal) => {
        child.kill(signal);
        return (await closed)[0];
      },
    };
  }

  /** A context of a service account with a ClusterRole of the chart, and with further rules. */
  async grant(role: string, namespace: string, name = role, more: readonly object[] = []): Promise<void> {
    const objects = parseAllDocuments(readFileSync(RENDER, 'utf8')).map(
      (document) => document.toJS() as { kind?: string; metadata?: { name?: string }; rules?: object[] } | null,
    );
    const found = objects.find((one) => one?.kind === 'ClusterRole' && one.metadata?.name === role);
    const { api } = this.cluster;
    await api.create(`${RBAC}/clusterroles`, { metadata: { name }, rules: [...(found?.rules ?? []), ...more] });
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await api.create(accounts, { metadata: { name } });
    await api.create(`${RBAC}/clusterrolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    });
    const { status } = await api.create<{ status: { token: string } }>(`${accounts}/${name}/token`, { spec: {} });
    this.users[name] = { token: status.token };
  }
}
