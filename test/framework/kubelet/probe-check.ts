import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { V1Container, V1HTTPGetAction, V1Probe } from '@kubernetes/client-node';
import { messageOf } from '@brupop/shared/runtime/errors';
import { Unsupported } from './pod.ts';

/** Where a container can be probed. */
export interface ProbeTarget {
  /** The local address of the pod. */
  readonly host: string;
  readonly container: V1Container;
}

/** The number of a port that is given by number or name. Throws Unsupported for an unknown name. */
function portNumber(port: number | string, container: V1Container): number {
  if (typeof port === 'number') return port;
  const found = container.ports?.find(({ name }) => name === port)?.containerPort ?? Number(port);
  if (Number.isNaN(found)) throw new Unsupported(`container ${container.name} has no port named "${port}"`);
  return found;
}

/**
 * One probe. Returns undefined when it succeeds, else the failure. A connection of its own each
 * time; certificates are not checked, as in the kubelet.
 */
export async function checkOnce(probe: V1Probe, target: ProbeTarget, signal: AbortSignal): Promise<string | undefined> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout((probe.timeoutSeconds ?? 1) * 1000)]);
  try {
    if (probe.httpGet) return await httpGet(probe.httpGet, target, limit);
    if (probe.tcpSocket) await tcpConnect(target.host, portNumber(probe.tcpSocket.port, target.container), limit);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/**
 * One GET. Returns undefined for a status from 200 to 399, else the failure. Throws when there
 * is no answer.
 */
export async function httpGet(
  action: V1HTTPGetAction,
  { host, container }: ProbeTarget,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { path = '/', scheme = 'HTTP', httpHeaders = [] } = action;
  const options = {
    host,
    port: portNumber(action.port, container),
    path,
    agent: false,
    signal,
    rejectUnauthorized: false,
    headers: {
      'user-agent': 'kube-probe/1.36',
      ...Object.fromEntries(httpHeaders.map(({ name, value }) => [name, value])),
    },
  } as const;
  const status = await new Promise<number>((resolve, reject) => {
    const request = scheme === 'HTTPS' ? httpsRequest(options) : httpRequest(options);
    request.once('response', (response) => {
      response.resume();
      response.once('error', reject);
      response.once('end', () => resolve(response.statusCode ?? 0));
    });
    request.once('error', reject);
    request.end();
  });
  return status >= 200 && status < 400 ? undefined : `${scheme} probe failed with statuscode: ${status}`;
}

async function tcpConnect(host: string, port: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const socket = connect({ host, port });
    const fail = (error: Error): void => {
      socket.destroy();
      reject(error);
    };
    socket.once('connect', () => {
      socket.destroy();
      resolve();
    });
    socket.once('error', fail);
    signal.addEventListener('abort', () => fail(signal.reason as Error), { once: true });
  });
}
