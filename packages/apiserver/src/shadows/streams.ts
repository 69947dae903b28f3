/**
 * Shadow streams: one open answer per agent, a line of JSON per message, and one watch for all of
 * them.
 *
 * - A stream starts with the shadow or its absence, and continues with each change.
 * - At most one line is being written and at most one, the latest, waits behind it: a slow client
 *   costs no memory and misses nothing but what is out of date.
 * - An agent takes a heartbeat as proof that its spec is still the one that it knows. So all
 *   streams end when a watch cache is stale, and none outlives its token, its pod, or a
 *   newer stream of its pod.
 */
import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import type { StreamMessage } from '@brupop/shared/api/agent-protocol';
import { STREAM_HEARTBEAT_MS, STREAM_INACTIVITY_MS } from '@brupop/shared/api/deadlines';
import { shadowName } from '@brupop/shared/api/names';
import type { Reflector } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { AgentPod } from '../auth/agent-pods.ts';
import type { Identity } from '../auth/authenticator.ts';
import { LruMap } from '../http/limits.ts';
import { agentShadow, concerns, type SlimShadow } from './policy.ts';

/** Streams get heartbeats in groups, so that those of thousands are spread out. */
const GROUPS = 10;
const TICK_MS = STREAM_HEARTBEAT_MS / GROUPS;
/** How long a client may take to receive the end of a stream. */
const END_LIMIT_MS = 2_000;
const POD_DELETED = 'the pod is deleted';
/** More than a rollout of agents deletes in the seconds that a call takes. */
const DELETED_PODS = 2_000;

export interface StreamHubOptions {
  readonly shadows: Pick<Reflector<SlimShadow>, 'get' | 'subscribe'>;
  readonly pods: Pick<Reflector<AgentPod>, 'subscribe'>;
  readonly namespace: string;
  readonly clock: Clock;
  /** Called with 1 or -1 when the stream of an agent of this build opens or closes. */
  readonly count: (change: number, agentBuild: string) => void;
  /** Returns why a watch cache is stale or not synced, or undefined. */
  readonly stale: () => string | undefined;
}

export class StreamHub {
  readonly #options: StreamHubOptions;
  /** By shadow name, then by pod UID. */
  readonly #streams = new Map<string, Map<string, ShadowStream>>();
  readonly #groups: readonly Set<ShadowStream>[] = Array.from({ length: GROUPS }, () => new Set());
  /** UIDs of the latest ones: a call may have been authenticated before. */
  readonly #deletedPods = new LruMap<true>(DELETED_PODS);
  #opened = 0;
  #tick = 0;
  #beatAt: number;

  constructor(options: StreamHubOptions) {
    this.#options = options;
    this.#beatAt = options.clock.monotonic();
  }

  /** Milliseconds since heartbeats were due last; about 1,000 in normal operation. */
  sinceBeatMs(): number {
    return this.#options.clock.monotonic() - this.#beatAt;
  }

  /** Serves the streams until `signal` aborts; then ends all of them. */
  run(signal: AbortSignal): void {
    const { shadows, pods } = this.#options;
    const unsubscribe = [
      shadows.subscribe(({ type, object }) =>
        this.#send(object.metadata.name, type === 'Deleted' ? undefined : object),
      ),
      pods.subscribe(({ type, object }) => {
        if (type === 'Deleted') this.#podDeleted(object.metadata.uid);
        // It may have left the watch with its label only.
        else this.#deletedPods.delete(object.metadata.uid);
      }),
    ];
    this.#beat(signal);
    signal.addEventListener('abort', () => {
      for (const end of unsubscribe) end();
      this.#endAll('the apiserver is shutting down');
    });
  }

  /** Opens a stream with the cached shadow or else `found`. An older one of the same pod ends. */
  open(identity: Identity, response: ServerResponse, found: SlimShadow | undefined, agentBuild = ''): void {
    const { shadows, namespace, clock, count } = this.#options;
    const name = shadowName(identity.node);
    const group = this.#groups[this.#opened % GROUPS];
    this.#opened += 1;
    const sink = openAnswer(response);
    const stream = new ShadowStream({ sink, clock, identity });
    const ofNode = this.#streams.get(name) ?? new Map<string, ShadowStream>();
    ofNode.get(identity.podUID)?.end('a newer stream of this pod replaces it');
    this.#streams.set(name, ofNode.set(identity.podUID, stream));
    group?.add(stream);
    count(1, agentBuild);
    onClose(sink, () => {
      group?.delete(stream);
      count(-1, agentBuild);
      if (ofNode.get(identity.podUID) === stream) ofNode.delete(identity.podUID);
      if (ofNode.size === 0 && this.#streams.get(name) === ofNode) this.#streams.delete(name);
    });
    // Since the call was authenticated. A pod that the watch has not shown yet is served.
    if (this.#deletedPods.get(identity.podUID) !== undefined) stream.end(POD_DELETED);
    else stream.show(shadows.get(name, namespace) ?? found);
  }

  #send(name: string, shadow: SlimShadow | undefined): void {
    for (const stream of this.#streams.get(name)?.values() ?? []) stream.show(shadow);
  }

  #endAll(reason: string): void {
    for (const stream of this.#groups.flatMap((group) => [...group])) stream.end(reason);
  }

  #podDeleted(podUID: string): void {
    this.#deletedPods.set(podUID, true);
    for (const ofNode of this.#streams.values()) ofNode.get(podUID)?.end(POD_DELETED);
  }

  #beat(signal: AbortSignal): void {
    if (signal.aborted) return;
    const { clock, stale } = this.#options;
    this.#beatAt = clock.monotonic();
    const why = stale();
    if (why === undefined) for (const stream of this.#groups[this.#tick % GROUPS] ?? []) stream.beat();
    else this.#endAll(why);
    this.#tick += 1;
    clock.after(TICK_MS, () => this.#beat(signal));
  }
}

/** Closes the connection after it, so that the next stream may reach another replica. */
function openAnswer(response: ServerResponse): ServerResponse {
  const headers = { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store', connection: 'close' };
  response.writeHead(200, headers);
  response.flushHeaders();
  return response.on('error', () => response.destroy());
}

function onClose(sink: Writable, listener: () => void): void {
  if (sink.closed) listener();
  else sink.once('close', listener);
}

export class ShadowStream {
  readonly #sink: Writable;
  readonly #clock: Clock;
  readonly #identity: Identity;
  #sent = '';
  #waiting: string | undefined;
  /** Since when a line is being written, monotonic milliseconds. */
  #busySince: number | undefined;
  #ended = false;

  constructor(options: { sink: Writable; clock: Clock; identity: Identity }) {
    this.#sink = options.sink;
    this.#clock = options.clock;
    this.#identity = options.identity;
  }

  /** Sends the shadow. That of another Node of this name counts as none. */
  show(shadow: SlimShadow | undefined): void {
    const own = shadow !== undefined && concerns(shadow, this.#identity);
    this.send(own ? { type: 'shadow', shadow: agentShadow(shadow) } : { type: 'deleted' });
  }

  /** Sends a message that is new. Of those for a slow client only the latest is kept. */
  send(message: StreamMessage): void {
    if (this.#ended) return;
    const line = lineOf(message);
    if (this.#busySince === undefined) this.#writeNew(line);
    else this.#waiting = line;
  }

  /** To be called every STREAM_HEARTBEAT_MS. Ends the stream before its token expires. */
  beat(): void {
    if (this.#ended) return;
    if (this.#clock.now() + STREAM_HEARTBEAT_MS >= this.#identity.expiresAt)
      this.end('the token expires; connect with a new one');
    else if (this.#busySince === undefined) this.#write(lineOf({ type: 'heartbeat' }));
    else if (this.#clock.monotonic() - this.#busySince > STREAM_INACTIVITY_MS) this.#sink.destroy();
  }

  /** Sends the reason and closes; cuts the connection when that takes longer than 2 s. */
  end(reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#waiting = undefined;
    this.#sink.end(lineOf({ type: 'end', reason }));
    onClose(
      this.#sink,
      this.#clock.after(END_LIMIT_MS, () => this.#sink.destroy()),
    );
  }

  #writeNew(line: string): void {
    if (line === this.#sent) return;
    this.#sent = line;
    this.#write(line);
  }

  #write(line: string): void {
    this.#busySince = this.#clock.monotonic();
    this.#sink.write(line, (error) => {
      if (error == null) this.#written();
    });
  }

  #written(): void {
    this.#busySince = undefined;
    const next = this.#waiting;
    this.#waiting = undefined;
    if (next !== undefined && !this.#ended) this.#writeNew(next);
  }
}

function lineOf(message: StreamMessage): string {
  return `${JSON.stringify(message)}\n`;
}
