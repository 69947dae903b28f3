/**
 * Collects a support bundle. Each part is read on its own: one that fails is named in the README with what is missing, and
 * the others go on. A list is cut at MAX_PART_CHARS, so no more than one part and one page is in memory; after
 * LIMIT_MS or MAX_CHARS nothing more is read. Anyone may give objects of their namespace the labels of the operator: what
 * is in the namespace of the operator has space of its own, and the logs that matter are read first.
 */
import { COMPONENT_LABEL, AGENT, shadowName } from '@brupop/shared/api/names';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { readList } from '@brupop/shared/kube/list';
import { corePath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Client } from '../cluster/client.ts';
import { explainError } from '../cluster/errors.ts';
import { nodeRow } from '../render/node.ts';
import type { Archive } from './archive.ts';
import type { Redaction } from './redact.ts';
import { budgetSource, eventSource, type Source, sourcesOf } from './sources.ts';

const MAX_PART_CHARS = 16 * 1024 * 1024;
/** Of a part, for objects of other namespaces than that of the operator. */
const MAX_OTHER_CHARS = 12 * 1024 * 1024;
const MAX_CHARS = 128 * 1024 * 1024;
const LIMIT_MS = 300_000;
const MAX_LOG_BYTES = 1024 * 1024;
const MAX_NAMESPACES = 10;
/** Whose logs are read, of those in other namespaces that are no agents: such as of a former installation. */
const MAX_OTHER_PODS = 10;

export interface Part {
  readonly file: string;
  readonly about: string;
  /** What it has, or why it has nothing. */
  readonly result: string;
  readonly isRead: boolean;
}

export interface CollectOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly archive: Pick<Archive, 'add'>;
  readonly redaction: Redaction;
  readonly shadows: readonly BottlerocketShadow[];
  readonly namespace: string;
  /** Lines of the log of each container. */
  readonly lines: number;
  /** The logs of at most so many agents. */
  readonly agents: number;
}

interface Pod {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly component: string;
  readonly restarts: number;
}

export class Collection {
  readonly parts: Part[] = [];
  readonly #options: CollectOptions;
  readonly #endsAt: number;
  readonly #pods: Pod[] = [];
  /** In which objects of the operator were found. */
  readonly #namespaces = new Set<string>();
  #chars = 0;

  constructor(options: CollectOptions) {
    this.#options = options;
    this.#endsAt = options.clock.monotonic() + LIMIT_MS;
  }

  async run(): Promise<void> {
    const { namespace, shadows } = this.#options;
    await this.#file('versions.json', 'the release of Kubernetes', async () => await this.#version());
    await this.#read(sourcesOf(namespace));
    const [first, last] = this.#chosenPods();
    for (const pod of first) await this.#logs(pod);
    const others = [...this.#namespaces].filter((one) => one !== namespace);
    await this.#read(others.slice(0, MAX_NAMESPACES).map((one) => eventSource(one)));
    const blocked = new Set(shadows.flatMap(blockedNamespaces));
    await this.#read([...blocked].slice(0, MAX_NAMESPACES).map((one) => budgetSource(one)));
    for (const pod of last) await this.#logs(pod);
  }

  async #read(sources: readonly Source[]): Promise<void> {
    for (const source of sources) {
      const file = `objects/${source.name}.json`;
      await this.#file(file, source.about, async () => await this.#objects(source, file));
    }
  }

  async #file(file: string, about: string, read: () => Promise<{ text: string; result: string }>): Promise<void> {
    const { archive, signal, clock } = this.#options;
    signal.throwIfAborted();
    const left = this.#chars < MAX_CHARS && clock.monotonic() < this.#endsAt;
    if (!left) {
      this.parts.push({ file, about, result: 'not read: the limit of time or size was reached', isRead: false });
      return;
    }
    try {
      const { text, result } = await read();
      this.#chars += text.length;
      await archive.add(file, text);
      this.parts.push({ file, about, result, isRead: true });
    } catch (error) {
      signal.throwIfAborted();
      this.parts.push({ file, about, result: this.#why(error), isRead: false });
    }
  }

  #why(error: unknown): string {
    const { client, redaction } = this.#options;
    return redaction.text(explainError(error, client.context).replaceAll('\n', ' '));
  }

  async #version(): Promise<{ text: string; result: string }> {
    const version = await this.#options.client.request<{ gitVersion?: string }>({ method: 'GET', path: '/version' });
    return { text: json(version), result: version.gitVersion ?? 'unknown' };
  }

  /** A user who may list one namespace only, or whose list of all namespaces fails otherwise, gets the objects of the operator's. */
  async #objects(source: Source, file: string): Promise<{ text: string; result: string }> {
    const { about, path, ownPath } = source;
    const { signal } = this.#options;
    try {
      return await this.#list(source, path);
    } catch (error) {
      if (ownPath === undefined || signal.aborted) throw error;
      const found = await this.#list(source, ownPath);
      this.parts.push({ file, about, result: `in other namespaces: ${this.#why(error)}`, isRead: false });
      return found;
    }
  }

  async #list(
    { query, accept, keep = (one) => one, name, ownPath }: Source,
    path: string,
  ): Promise<{ text: string; result: string }> {
    const { client, redaction, signal, namespace: own } = this.#options;
    const texts: string[] = [];
    const namespaces = new Set<string>();
    const pods: Pod[] = [];
    let chars = 0;
    const slim = (raw: unknown): true | undefined => {
      const { namespace = own } = (raw as KubernetesObject).metadata;
      if (ownPath !== undefined) namespaces.add(namespace);
      if (name === 'pods') pods.push(podOf(raw));
      const text = json(redaction.object(keep(raw as Record<string, unknown>)));
      const most = ownPath === undefined || namespace === own ? MAX_PART_CHARS : MAX_OTHER_CHARS;
      if (chars + text.length > most) return undefined;
      chars += text.length;
      texts.push(text.trimEnd());
      return true;
    };
    const reader: Pick<Client, 'request'> = {
      request: async (request) => await client.request({ ...request, ...(accept !== undefined && { accept }) }),
    };
    const { omitted } = await readList(reader, { path, slim, signal, ...(query && { query }) });
    for (const one of namespaces) this.#namespaces.add(one);
    for (const pod of pods) this.#pods.push(pod);
    const rest = omitted === 0 ? '' : `, and ${omitted} more that did not fit`;
    return {
      text: `{"apiVersion":"v1","kind":"List","items":[\n${texts.join(',\n')}\n]}\n`,
      result: `${texts.length} objects${rest}`,
    };
  }

  /**
   * Controllers and API servers, and the agents of nodes that have failed, need a user or are under way before others; then
   * what other namespaces have of the rest.
   */
  #chosenPods(): readonly [first: Pod[], last: Pod[]] {
    const { shadows, agents, namespace: own } = this.#options;
    const urgency = new Map(shadows.map((shadow) => [shadow.metadata.name, urgencyOf(shadow)]));
    const of = ({ node }: Pod): number => urgency.get(shadowName(node)) ?? 0;
    const isOwn = ({ namespace }: Pod): boolean => namespace === own;
    const programs = this.#pods.filter(({ component }) => component !== AGENT);
    const ofAgents = this.#pods
      .filter(({ component }) => component === AGENT)
      .toSorted((a, b) => Number(isOwn(b)) - Number(isOwn(a)) || of(b) - of(a));
    return [
      [...programs.filter(isOwn), ...ofAgents.slice(0, agents)],
      programs.filter((pod) => !isOwn(pod)).slice(0, MAX_OTHER_PODS),
    ];
  }

  async #logs({ name, namespace, restarts }: Pod): Promise<void> {
    const { client, redaction, lines } = this.#options;
    const read = async (previous: boolean): Promise<{ text: string; result: string }> => {
      const limits = { tailLines: String(lines), limitBytes: String(MAX_LOG_BYTES) };
      const query = { ...limits, ...(previous && { previous: 'true' }) };
      const path = corePath('pods', { namespace, name, subresource: 'log' });
      const found = await client.text({ method: 'GET', path, query, accept: '*/*', maxBytes: 2 * MAX_LOG_BYTES });
      const text = redaction.text(found);
      return { text, result: `${text.split('\n').length - 1} lines` };
    };
    const plain = `logs/${redaction.text(name)}`;
    // Those of the operator's namespace come first.
    const isTaken = this.parts.some(({ file }) => file === `${plain}.log`);
    const file = isTaken ? `logs/${namespace}/${redaction.text(name)}` : plain;
    await this.#file(`${file}.log`, 'log', async () => await read(false));
    if (restarts > 0) await this.#file(`${file}.previous.log`, 'log before its restart', async () => await read(true));
  }
}

function podOf(raw: unknown): Pod {
  const { metadata, spec, status } = raw as {
    metadata: { name: string; namespace: string; labels?: Record<string, string> };
    spec?: { nodeName?: string };
    status?: { containerStatuses?: readonly { restartCount?: number }[] };
  };
  const restarts = (status?.containerStatuses ?? []).reduce((sum, { restartCount = 0 }) => sum + restartCount, 0);
  const { name, namespace, labels } = metadata;
  return { name, namespace, node: spec?.nodeName ?? '', component: labels?.[COMPONENT_LABEL] ?? '', restarts };
}

/** Nodes that have failed or need a user first, then those under way, then those that wait. */
function urgencyOf(shadow: BottlerocketShadow): number {
  const { phase, stalled } = nodeRow(shadow);
  if (phase === 'Failed' || stalled) return 3;
  if (phase === 'Updating') return 2;
  return phase === 'UpToDate' ? 0 : 1;
}

function blockedNamespaces({ status }: BottlerocketShadow): string[] {
  return (status?.drain?.blockedBy ?? []).flatMap(({ pod }) => (pod.includes('/') ? [pod.split('/')[0] ?? ''] : []));
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 1)}\n`;
}
