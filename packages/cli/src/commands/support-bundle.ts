/** `support-bundle`: what a developer needs to find out why a fleet does what it does, in one file without secrets. */
import { resolve } from 'node:path';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { REVISION, RELEASE } from '@brupop/shared/runtime/build';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { shadowName } from '@brupop/shared/api/names';
import { readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import type { Client } from '../cluster/client.ts';
import { UsageError } from '../cluster/errors.ts';
import { namespaceOf, namespacesText, readShadows } from '../cluster/fleet.ts';
import { type Archive, createArchive } from '../support/archive.ts';
import { Collection, type Part } from '../support/collect.ts';
import { Redaction } from '../support/redact.ts';
import { type Context, warnOf } from './context.ts';

const DEFAULT_NAMESPACE = 'brupop-bottlerocket-aws';

export interface BundleOptions {
  readonly output?: string | undefined;
  readonly lines: number;
  readonly agents: number;
  readonly redactNames: boolean;
}

/** Throws UsageError when the file cannot be written, nothing can be read, or shadows are in several namespaces. */
export async function supportBundle(context: Context, options: BundleOptions): Promise<void> {
  const { clock } = context;
  const now = clock.now();
  const path = resolve(options.output ?? `brupop-support-${rfc3339(now).replaceAll(/[-:]/gu, '')}.tar.gz`);
  const archive = await createArchive(path, now);
  let parts: readonly Part[];
  try {
    parts = await collect(context, options, archive);
    await archive.finish();
  } catch (error) {
    archive.discard();
    throw error;
  }
  const missing = parts.filter(({ isRead }) => !isRead);
  context.print(`${path}\n${parts.length - missing.length} parts were read; README.md in it lists them.\n`);
  for (const { file, result } of missing) context.warn(`not read: ${file}: ${result}\n`);
}

async function collect(context: Context, options: BundleOptions, archive: Archive): Promise<readonly Part[]> {
  const { client, clock, signal } = context;
  // Without them the rest is read all the same.
  const found = await readShadows(client).catch(() => undefined);
  const shadows = found ?? [];
  signal.throwIfAborted();
  const namespace = namespaceFor(context, found);
  const redaction = new Redaction(options.redactNames ? await nodeNames(client, shadows) : undefined);
  const { lines, agents } = options;
  const collection = new Collection({ client, clock, signal, archive, redaction, shadows, namespace, lines, agents });
  await collection.run();
  const { parts } = collection;
  const [first] = parts;
  if (first !== undefined && !parts.some(({ isRead, file }) => isRead && file !== first.file))
    throw new UsageError(`nothing can be read, so there is no bundle: ${parts.at(1)?.result ?? first.result}`);
  const made = { time: rfc3339(clock.now()), plugin: RELEASE, revision: REVISION, node: process.version, namespace };
  await archive.add('manifest.json', `${JSON.stringify({ made, redacted: redaction.counts, parts }, undefined, 2)}\n`);
  await archive.add('README.md', readme(made, redaction, parts));
  return parts;
}

/**
 * Only warns of a namespace without shadows: before the first node is managed, there is none. Throws UsageError when
 * they are in several.
 *
 * @param shadows - undefined: they cannot be read
 */
function namespaceFor(context: Context, shadows: readonly BottlerocketShadow[] | undefined): string {
  const { namespace } = context.client;
  if (namespace === undefined) return namespaceOf({ shadows: shadows ?? [] }) ?? DEFAULT_NAMESPACE;
  if (shadows !== undefined) warnOf(context, namespacesText({ namespace, shadows }));
  return namespace;
}

function nameOf(raw: unknown): string {
  return (raw as BottlerocketShadow).metadata.name;
}

/** Throws UsageError when no name is known: none could be replaced then. */
async function nodeNames(client: Client, shadows: readonly BottlerocketShadow[]): Promise<string[]> {
  const nodes = await readList(client, { path: corePath('nodes'), slim: nameOf }).then(
    ({ items }) => items,
    () => [],
  );
  const names = new Set([...nodes, ...shadows.map(({ metadata: { name } }) => name.slice(shadowName('').length))]);
  if (names.size > 0) return [...names];
  throw new UsageError(
    '--redact-names: expected the right to list Nodes or shadows, whose names it replaces; found none',
  );
}

function row({ file, about, result }: Part): string {
  return `- ${file}: ${about}: ${result}`;
}

function readme(
  made: Readonly<Record<'time' | 'plugin' | 'revision' | 'node' | 'namespace', string>>,
  { counts }: Redaction,
  parts: readonly Part[],
): string {
  return `# Support bundle of the Bottlerocket update operator

Made at ${made.time} by kubectl brupop ${made.plugin} (${made.revision}) with Node.js ${made.node}. The namespace of the
operator is ${made.namespace}.

Read it before you give it to others: it has the names of your objects, their labels, and what programs logged.

## What is in it

${parts
  .filter(({ isRead }) => isRead)
  .map(row)
  .join('\n')}

## What could not be read

${
  parts
    .filter(({ isRead }) => !isRead)
    .map(row)
    .join('\n') || 'Nothing.'
}

## What was redacted

- values of environment variables: ${counts.environment}
- values of annotations that are neither the operator's nor of autoscalers, such as last-applied-configuration:
  ${counts.annotations}
- what looks like a token, a key or a password, in any text: ${counts.credentials}
- names of nodes and addresses, with --redact-names: ${counts.names}

Secrets are never read. Of ConfigMaps there are the names only.
`;
}
