import type { StreamMessage } from '@brupop/shared/api/agent-protocol';
import { STREAM_HEARTBEAT_MS } from '@brupop/shared/api/deadlines';
import { shadowName } from '@brupop/shared/api/names';
import type { Reflector } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { AgentPod } from '../auth/agent-pods.ts';
import type { Identity } from '../auth/authenticator.ts';
import { agentShadow, concerns, type SlimShadow } from './policy.ts';
import { ShadowStream, type Sink } from './shadow-stream.ts';

export interface StreamHubOptions {
  readonly shadows: Pick<Reflector<SlimShadow>, 'get' | 'subscribe'>;
  readonly pods: Pick<Reflector<AgentPod>, 'subscribe'>;
  readonly namespace: string;
  readonly clock: Clock;
  /** Told how many streams are open. */
  readonly count: (open: number) => void;
  /** Why what the watches show may be out of date, or undefined. While it may be, no stream stays open. */
  readonly stale: () => string | undefined;
}

/** Streams are visited in so many groups, one after the other, so that heartbeats of thousands do not go out at the same instant. */
const GROUPS = 10;
const TICK_MS = STREAM_HEARTBEAT_MS / GROUPS;

interface Open {
  readonly identity: Identity;
  readonly stream: ShadowStream;
}

/** All open streams: hands each change of a shadow to the stream of its node, with one watch for all. */
export class StreamHub {
  readonly #options: StreamHubOptions;
  /** By shadow name, then by pod UID. */
  readonly #streams = new Map<string, Map<string, Open>>();
  readonly #groups: readonly Set<ShadowStream>[] = Array.from({ length: GROUPS }, () => new Set());
  #open = 0;
  #opened = 0;
  #tick = 0;
  #beatAt: number;

  constructor(options: StreamHubOptions) {
    this.#options = options;
    this.#beatAt = options.clock.monotonic();
  }

  /** Milliseconds since heartbeats were due last; about a second when all is well. */
  sinceBeatMs(): number {
    return this.#options.clock.monotonic() - this.#beatAt;
  }

  /** Serves the streams until `signal` aborts; then ends all of them. */
  run(signal: AbortSignal): void {
    const { shadows, pods } = this.#options;
    const ends = [
      shadows.subscribe(({ type, object }) =>
        this.#tell(object.metadata.name, type === 'Deleted' ? undefined : object),
      ),
      pods.subscribe(({ type, object }) => {
        if (type === 'Deleted') this.#podGone(object.metadata.uid);
      }),
    ];
    this.#beat(signal);
    signal.addEventListener('abort', () => {
      for (const end of ends) end();
      this.#endAll('the apiserver is shutting down');
    });
  }

  /**
   * Opens a stream; it begins with the shadow that the watch knows, or else with `found`, or else says that there is none. An older stream
   * of the same pod ends.
   */
  open(identity: Identity, sink: Sink, found: SlimShadow | undefined): void {
    const { shadows, namespace, clock } = this.#options;
    const name = shadowName(identity.node);
    const group = this.#groups[this.#opened % GROUPS];
    this.#opened += 1;
    const stream = new ShadowStream({ sink, clock, expiresAt: identity.expiresAt });
    const ofNode = this.#streams.get(name) ?? new Map<string, Open>();
    ofNode.get(identity.podUID)?.stream.end('a newer stream of this pod replaces it');
    this.#streams.set(name, ofNode.set(identity.podUID, { identity, stream }));
    group?.add(stream);
    this.#count(1);
    sink.onClose(() => {
      group?.delete(stream);
      this.#forget(name, identity.podUID, stream);
    });
    stream.send(messageFor(shadows.get(name, namespace) ?? found, identity));
  }

  #tell(name: string, shadow: SlimShadow | undefined): void {
    for (const { stream, identity } of this.#streams.get(name)?.values() ?? [])
      stream.send(messageFor(shadow, identity));
  }

  #endAll(reason: string): void {
    for (const stream of this.#groups.flatMap((group) => [...group])) stream.end(reason);
  }

  #podGone(podUID: string): void {
    for (const ofNode of this.#streams.values()) ofNode.get(podUID)?.stream.end('the pod is deleted');
  }

  #forget(name: string, podUID: string, stream: ShadowStream): void {
    this.#count(-1);
    const ofNode = this.#streams.get(name);
    if (ofNode?.get(podUID)?.stream === stream) ofNode.delete(podUID);
    if (ofNode?.size === 0) this.#streams.delete(name);
  }

  #count(change: number): void {
    this.#open += change;
    this.#options.count(this.#open);
  }

  #beat(signal: AbortSignal): void {
    if (signal.aborted) return;
    const { clock, stale } = this.#options;
    this.#beatAt = clock.monotonic();
    const why = stale();
    // Agents take a heartbeat as word that their spec is still the one they know.
    if (why === undefined) for (const stream of this.#groups[this.#tick % GROUPS] ?? []) stream.beat();
    else this.#endAll(why);
    this.#tick += 1;
    clock.after(TICK_MS, () => this.#beat(signal));
  }
}

/** The shadow of another Node of that name is none to the agent: it then asks for its own, or learns that its Node is gone. */
function messageFor(shadow: SlimShadow | undefined, identity: Identity): StreamMessage {
  const own = shadow !== undefined && concerns(shadow, identity);
  return own ? { type: 'shadow', shadow: agentShadow(shadow) } : { type: 'deleted' };
}
