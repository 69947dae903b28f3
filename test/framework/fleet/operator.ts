import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { APISERVER } from '../../../packages/shared/src/api/names.ts';
import { makeServingCertificate, type ServingCertificate } from '../certificates.ts';
import type { Connection } from '../control-plane/connection.ts';

export const RELEASE = 'bottlerocket-update-operator';
const CHART = join(import.meta.dirname, '..', '..', '..', 'charts', RELEASE);
const TLS_SECRET = 'brupop-apiserver-tls';
const CA_CONFIG_MAP = 'brupop-ca';
const HELM_LIMIT_MS = 60_000;
/** Stand-in nodes all come from the same loopback address. The certificate is made here. */
const DEFAULTS: Values = {
  'image.repository': RELEASE,
  'apiserver.maxConnectionsPerAddress': 1000,
  'tls.mode': 'provided',
};

const CHECK_INTERVAL = 'agent.updateCheckIntervalSeconds';
/** Seconds; tests may look for updates more often than the chart's schema allows. */
const SHORTEST_INTERVAL = 60;

/** Chart values by their dotted path. */
export type Values = Readonly<Record<string, string | number | boolean>>;

/** Installs the chart with Helm, as a user does. */
export class Operator {
  readonly namespace: string;
  /** Name of the API server in its certificate. */
  readonly serverName: string;
  /** Serving certificate of the API server. */
  readonly certificate: ServingCertificate;
  readonly #cluster: Connection;

  constructor(cluster: Connection, namespace: string) {
    this.#cluster = cluster;
    this.namespace = namespace;
    this.serverName = `${APISERVER}.${namespace}.svc`;
    this.certificate = makeServingCertificate({ commonName: this.serverName, dnsNames: [this.serverName] });
  }

  /**
   * Makes the namespace if there is none and, unless the operator issues them itself, the API server's certificate and
   * authority, then `helm install`, over definitions that are there already.
   */
  async install(values: Values, chart = CHART): Promise<void> {
    const { api } = this.#cluster;
    const labels = { 'pod-security.kubernetes.io/enforce': 'privileged' };
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: this.namespace, labels } };
    const path = `/api/v1/namespaces/${this.namespace}?fieldManager=user&force=true`;
    await api.request('PATCH', path, namespace, 'application/apply-patch+yaml');
    if ({ ...DEFAULTS, ...values }['tls.mode'] === 'provided') await this.createCertificate();
    await this.#helm('install', values, chart, ['--take-ownership', '--force-conflicts']);
  }

  async upgrade(values: Values): Promise<void> {
    await this.#helm('upgrade', values);
  }

  /** To the revision before. */
  async rollback(): Promise<void> {
    await this.#run(['rollback', RELEASE, '--namespace', this.namespace]);
  }

  async createCertificate(): Promise<void> {
    const { caCert, cert, key } = this.certificate;
    const { api } = this.#cluster;
    const path = `/api/v1/namespaces/${this.namespace}`;
    const stringData = { 'tls.crt': cert, 'tls.key': key };
    await api.create(`${path}/configmaps`, { metadata: { name: CA_CONFIG_MAP }, data: { 'ca.crt': caCert } });
    await api.create(`${path}/secrets`, { metadata: { name: TLS_SECRET }, type: 'kubernetes.io/tls', stringData });
  }

  async #helm(verb: 'install' | 'upgrade', values: Values, chart = CHART, more: readonly string[] = []): Promise<void> {
    const set = Object.entries({ ...DEFAULTS, ...values }).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
    const unchecked = Number(values[CHECK_INTERVAL] ?? SHORTEST_INTERVAL) < SHORTEST_INTERVAL;
    const flags = unchecked ? ['--skip-schema-validation'] : [];
    await this.#run([verb, RELEASE, chart, '--namespace', this.namespace, ...flags, ...more, ...set]);
  }

  async #run(args: readonly string[]): Promise<void> {
    const { assets, env } = this.#cluster;
    await promisify(execFile)(assets.helm, args, { env, timeout: HELM_LIMIT_MS });
  }
}
