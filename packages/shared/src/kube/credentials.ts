import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type * as ClientNode from '@kubernetes/client-node';
import { ConfigError } from '../runtime/errors.ts';
import { type Env, integer, requiredText, text } from '../runtime/env.ts';

/** Where the Kubernetes API is, and where its credentials are. */
export type ClusterAccess =
  | { readonly kubeconfig: string }
  | { readonly host: string; readonly port: number; readonly serviceAccountDir: string };

/** The content of those files at one moment. */
export interface Credentials {
  /** `https://host:port`, with a path prefix when the kubeconfig has one. */
  readonly server: string;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** Bearer token of a kubeconfig. A pod's token is read for each request instead. */
  readonly token?: string;
}

/** Reads the environment of a pod or, outside of pods, KUBECONFIG. Throws ConfigError. */
export function clusterAccess(env: Env): ClusterAccess {
  const kubeconfig = text(env, 'KUBECONFIG', '');
  if (kubeconfig !== '') return { kubeconfig };
  return {
    host: requiredText(env, 'KUBERNETES_SERVICE_HOST'),
    port: integer(env, 'KUBERNETES_SERVICE_PORT', { min: 1, max: 65_535, fallback: 443 }),
    serviceAccountDir: text(env, 'SERVICE_ACCOUNT_DIR', '/var/run/secrets/kubernetes.io/serviceaccount'),
  };
}

/** Reads addresses and certificates. Throws ConfigError when they are missing. */
export async function readCredentials(access: ClusterAccess): Promise<Credentials> {
  if ('kubeconfig' in access) return fromKubeconfig(access.kubeconfig);
  const host = access.host.includes(':') ? `[${access.host}]` : access.host;
  const ca = await readFile(join(access.serviceAccountDir, 'ca.crt'), 'utf8');
  return { server: `https://${host}:${access.port}`, ca };
}

/** Reads the bearer token: in a pod for each request, because the kubelet replaces it. Undefined when a certificate is the identity. */
export async function readToken(access: ClusterAccess, credentials: Credentials): Promise<string | undefined> {
  if ('kubeconfig' in access) return credentials.token;
  return (await readFile(join(access.serviceAccountDir, 'token'), 'utf8')).trim();
}

async function fromKubeconfig(path: string): Promise<Credentials> {
  const { KubeConfig } = await kubeconfigLibrary();
  const config = new KubeConfig();
  config.loadFromFile(path);
  const server = config.getCurrentCluster()?.server;
  if (server === undefined) throw new ConfigError(`${path}: expected a current context with a cluster, found none`);
  const options: { ca?: unknown; cert?: unknown; key?: unknown; headers?: Record<string, unknown> } = {};
  await config.applyToHTTPSOptions(options as Parameters<typeof config.applyToHTTPSOptions>[0]);
  const [ca, cert, key] = [pem(options.ca), pem(options.cert), pem(options.key)];
  const token = bearer(options.headers?.['Authorization']);
  return { server, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }), ...(token && { token }) };
}

/** The bundles in the image leave the library out, because pods never need it. */
async function kubeconfigLibrary(): Promise<typeof ClientNode> {
  try {
    return await import('@kubernetes/client-node');
  } catch (error) {
    const message =
      'KUBECONFIG: kubeconfig files can be read only where the package @kubernetes/client-node is installed, found none';
    throw new ConfigError(message, { cause: error });
  }
}

function bearer(authorization: unknown): string | undefined {
  return typeof authorization === 'string' ? authorization.replace(/^Bearer /u, '') : undefined;
}

function pem(value: unknown): string | undefined {
  if (Buffer.isBuffer(value)) return value.toString('utf8');
  return typeof value === 'string' ? value : undefined;
}
