import { readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { type Api, connectApi } from './api.ts';
import type { ClusterAccess } from '../../../packages/shared/src/kube/client.ts';
import { credentialsDir, type User } from './identities.ts';
import type { Assets } from './versions.ts';

/** What another process needs in order to use a control plane: plain data. */
export interface Coordinates {
  url: string;
  /** The control plane's folder. It goes when the control plane stops. */
  dir: string;
  caFile: string;
  tokens: Readonly<Record<User, string>>;
  assets: Assets;
  /** The issuer of service-account tokens. */
  issuer: string;
}

/** A connection to a running control plane. */
export interface Connection extends Coordinates {
  /** PEM text of the API server's certificate authority. */
  ca: string;
  adminToken: string;
  /** The administrator's kubeconfig. */
  kubeconfigPath: string;
  /** One JSON object per line, written before the request is answered. */
  auditLogPath: string;
  /**
   * Environment for kubectl and helm: their folders first in PATH, KUBECONFIG, and Helm's folders
   * inside `dir`.
   */
  env: NodeJS.ProcessEnv;
  /** Requests as the administrator. */
  api: Api;
  /** How a program of the operator connects as a user. */
  accessAs(user: User): ClusterAccess;
  /** Closes the connections of `api`. */
  close(): Promise<void>;
}

export function connectionTo(coordinates: Coordinates): Connection {
  const { url, dir, caFile, tokens, assets } = coordinates;
  const ca = readFileSync(caFile, 'utf8');
  const api = connectApi(url, ca, tokens.admin);
  const kubeconfigPath = join(dir, 'admin.kubeconfig');
  return {
    ...coordinates,
    ca,
    adminToken: tokens.admin,
    kubeconfigPath,
    auditLogPath: join(dir, 'audit.log'),
    env: environment(dir, kubeconfigPath, assets),
    api,
    accessAs: (user) => ({
      host: new URL(url).hostname,
      port: Number(new URL(url).port),
      serviceAccountDir: credentialsDir(dir, user),
    }),
    close: async () => await api.close(),
  };
}

function environment(dir: string, kubeconfig: string, assets: Assets): NodeJS.ProcessEnv {
  const folders = new Set([assets.kubectl, assets.helm].map((path) => dirname(path)));
  return {
    ...process.env,
    PATH: [...folders, process.env['PATH']].join(delimiter),
    KUBECONFIG: kubeconfig,
    // kubectl caches discovery by host and port, and ports are used again.
    KUBECACHEDIR: join(dir, 'kubectl', 'cache'),
    HELM_CACHE_HOME: join(dir, 'helm', 'cache'),
    HELM_CONFIG_HOME: join(dir, 'helm', 'config'),
    HELM_DATA_HOME: join(dir, 'helm', 'data'),
  };
}
