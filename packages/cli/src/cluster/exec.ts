/**
 * Runs the program of a user that prints credentials (Kubernetes "client-go credential plugins"). It may ask something
 * on the terminal; what it prints besides goes to standard error.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { parseTime } from '@brupop/shared/runtime/clock';
import { processEnv } from '@brupop/shared/runtime/env';
import { messageOf } from '@brupop/shared/runtime/errors';
import { UsageError } from './errors.ts';
import type { ClusterEntry, ExecConfig } from './kubeconfig.ts';

export interface Credential {
  readonly token: string | undefined;
  /** PEM. */
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** Epoch milliseconds; undefined: until the API server refuses it. */
  readonly expiresAt: number | undefined;
}

export interface ExecOptions {
  /** The program may ask something on it. */
  readonly hasTerminal: boolean;
  readonly signal: AbortSignal;
}

/** That of a cluster with what its program needs besides. */
const CONFIG_EXTENSION = 'client.authentication.k8s.io/exec';

const LIMIT_MS = 60_000;
/** Someone may have to find a second factor. */
const INTERACTIVE_LIMIT_MS = 300_000;

/** Throws UsageError when the program cannot be run, fails, takes too long, or prints something else. */
export async function runExec(
  exec: ExecConfig,
  cluster: ClusterEntry,
  { hasTerminal, signal }: ExecOptions,
): Promise<Credential> {
  const { command = '', interactiveMode = 'IfAvailable' } = exec;
  if (command === '') throw new UsageError('expected the name of a program that prints credentials, found none');
  if (interactiveMode === 'Always' && !hasTerminal)
    throw new UsageError(`${command} asks for something, and standard input is no terminal`);
  const isInteractive = hasTerminal && interactiveMode !== 'Never';
  const info = infoOf(exec, cluster, isInteractive);
  const printed = await outputOf(exec, command, { info, isInteractive, signal });
  return credentialOf(command, printed);
}

/** What a program of this protocol gets in KUBERNETES_EXEC_INFO. */
function infoOf({ apiVersion, provideClusterInfo }: ExecConfig, cluster: ClusterEntry, interactive: boolean): string {
  const file = cluster['certificate-authority'];
  const data = file === undefined ? undefined : readFileSync(file).toString('base64');
  const ca = data ?? cluster['certificate-authority-data'];
  const { 'certificate-authority': _, extensions = [], ...rest } = cluster;
  const config = extensions.find(({ name }) => name === CONFIG_EXTENSION)?.extension;
  const known = { ...rest, ...(ca !== undefined && { 'certificate-authority-data': ca }), config };
  const spec = { interactive, ...(provideClusterInfo === true && { cluster: known }) };
  return JSON.stringify({ apiVersion, kind: 'ExecCredential', spec });
}

interface Run {
  /** For KUBERNETES_EXEC_INFO. */
  readonly info: string;
  readonly isInteractive: boolean;
  readonly signal: AbortSignal;
}

async function outputOf(exec: ExecConfig, command: string, { info, isInteractive, signal }: Run): Promise<string> {
  const own = Object.fromEntries((exec.env ?? []).map(({ name, value }) => [name, value]));
  const limitMs = isInteractive ? INTERACTIVE_LIMIT_MS : LIMIT_MS;
  const late = AbortSignal.timeout(limitMs);
  const child = spawn(command, exec.args ?? [], {
    env: { ...processEnv(), ...own, KUBERNETES_EXEC_INFO: info },
    stdio: [isInteractive ? 'inherit' : 'ignore', 'pipe', 'inherit'],
    killSignal: 'SIGKILL',
    signal: AbortSignal.any([signal, late]),
  });
  const ended = new Promise<string>((done, fail) => {
    child.on('error', (error) => {
      const problem = late.aborted ? `has not ended within ${limitMs / 1000} s` : `cannot be run: ${messageOf(error)}`;
      fail(new UsageError(`${command} ${problem}${hint(exec)}`));
    });
    child.on('close', (code, signal) => done(code === null ? `was ended by ${signal}` : `ended with ${code}`));
  });
  const [printed, end] = await Promise.all([text(child.stdout), ended]);
  if (end !== 'ended with 0') throw new UsageError(`${command} ${end}; it prints why above`);
  return printed;
}

function hint({ installHint = '' }: ExecConfig): string {
  return installHint === '' ? '' : `; ${installHint.trim()}`;
}

interface Printed {
  readonly status?: {
    readonly token?: unknown;
    readonly clientCertificateData?: unknown;
    readonly clientKeyData?: unknown;
    readonly expirationTimestamp?: unknown;
  } | null;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function credentialOf(command: string, printed: string): Credential {
  const { token, clientCertificateData, clientKeyData, expirationTimestamp } = readPrinted(command, printed);
  const [certificate, key] = [textOf(clientCertificateData), textOf(clientKeyData)];
  if (textOf(token) === undefined && (certificate === undefined || key === undefined))
    throw new UsageError(`${command}: expected a token, or a certificate and its key; found neither`);
  const expiresAt = parseTime(textOf(expirationTimestamp));
  return { token: textOf(token), certificate, key, expiresAt };
}

/** The message never quotes what was printed, which may be a token. */
function readPrinted(command: string, printed: string): NonNullable<Printed['status']> {
  try {
    const { status } = JSON.parse(printed) as Printed;
    if (typeof status === 'object' && status !== null) return status;
  } catch {
    // It is no JSON.
  }
  throw new UsageError(`${command}: expected an ExecCredential with a status, found something else`);
}
