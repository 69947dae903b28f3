import { RETRY_ANNOTATION, SHADOW_PLURAL, SHADOW_VERSION, UNANSWERED_ANNOTATION } from '@brupop/shared/constants';
import type { KubeClient } from '@brupop/shared/kube';
import { crPath } from '@brupop/shared/kube-paths';
import type { Logger } from '@brupop/shared/log';
import type { Outcome } from '../decide/advance.ts';
import { unanswered } from '../decide/failures.ts';
import type { Assumptions } from './assumptions.ts';
import type { Events } from '@brupop/shared/events';
import type { EventReason, NodeOccurrence } from './events.ts';
import { occurrenceAt } from './events.ts';
import type { SpecWrite } from '../decide/plan.ts';
import { readShadow } from '../cluster/shadow-view.ts';
import type { Writes } from './writes.ts';
import { forEachOf } from './writes.ts';

export interface SpecWriterOptions {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly writes: Writes;
  readonly events: Events;
  readonly assumptions: Assumptions;
}

/** Key of a shadow's spec in {@link Writes}. */
export function specKey(uid: string): string {
  return `spec/${uid}`;
}

/** Writes specs, each only onto the very resourceVersion that it was planned from. */
export class SpecWriter {
  readonly #options: SpecWriterOptions;

  constructor(options: SpecWriterOptions) {
    this.#options = options;
  }

  /** Answers the UIDs of the shadows that were not written. */
  async write(specs: readonly SpecWrite[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const unwritten = new Set(specs.map(({ shadow }) => shadow.metadata.uid));
    await forEachOf(specs, async (write) => {
      const { uid } = write.shadow.metadata;
      const key = specKey(uid);
      const { writes } = this.#options;
      if (writes.mayTry(key) && (await writes.attempt('spec', key, signal, () => this.#send(write, signal))))
        unwritten.delete(uid);
    });
    return unwritten;
  }

  async #send(write: SpecWrite, signal: AbortSignal): Promise<void> {
    const { client, log, events, assumptions } = this.#options;
    const { name, namespace = '' } = write.shadow.metadata;
    const path = crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace, name });
    assumptions.shadow(readShadow(await client.mergePatch(path, patchOf(write), { signal })));
    const { outcome, spec, node } = write;
    log.info('spec written', { node: node.metadata.name, outcome, state: spec.state, version: spec.version ?? null });
    const occurrence = occurrenceOf(write);
    if (occurrence !== undefined) events.record(occurrenceAt(occurrence));
  }
}

/** The merge patch of a write. */
export function patchOf(write: SpecWrite): object {
  const { shadow, spec } = write;
  const { uid, resourceVersion } = shadow.metadata;
  const annotations = annotationsOf(write);
  return {
    metadata: { uid, resourceVersion, ...(annotations !== undefined && { annotations }) },
    spec: {
      state: spec.state,
      version: spec.version ?? null,
      state_transition_timestamp: spec.state_transition_timestamp ?? null,
    },
  };
}

/**
 * A start uses up the annotation that asked for it: a second failure is not retried blindly. What was called off is counted here, since the
 * agent counts only what it reports.
 */
function annotationsOf({ shadow, outcome }: SpecWrite): Readonly<Record<string, string | null>> | undefined {
  const has = (name: string): boolean => shadow.metadata.annotations?.[name] !== undefined;
  if (outcome === 'Started' && has(RETRY_ANNOTATION)) return { [RETRY_ANNOTATION]: null };
  if (outcome === 'Cancelled') return { [UNANSWERED_ANNOTATION]: String(unanswered(shadow) + 1) };
  if (outcome === 'Succeeded' && has(UNANSWERED_ANNOTATION)) return { [UNANSWERED_ANNOTATION]: null };
  return undefined;
}

/** The Event that a write deserves, or undefined. */
export function occurrenceOf(write: SpecWrite): NodeOccurrence | undefined {
  const { shadow, node, outcome } = write;
  const telling = TELLING[outcome];
  if (telling === undefined) return undefined;
  const key = `${shadow.metadata.uid}/${shadow.metadata.generation ?? 0}`;
  return { reason: telling.reason, message: telling.message(write), shadow, node, key };
}

const TELLING: Partial<Record<Outcome, { reason: EventReason; message: (write: SpecWrite) => string }>> = {
  Started: {
    reason: 'UpdateStarted',
    message: ({ shadow, spec }) => `Updates from ${shadow.status?.current_version ?? '?'} to ${spec.version ?? '?'}`,
  },
  Postponed: {
    reason: 'UpdatePostponed',
    message: () => 'The update is staged, but the node cannot be drained now: others go first',
  },
  Interrupted: {
    reason: 'UpdateInterrupted',
    message: () => 'BrupopConfig "cluster" interrupts updates: this one is undone, and begins again after the pause',
  },
  Succeeded: {
    reason: 'UpdateSucceeded',
    message: ({ shadow }) => `Runs ${shadow.status?.current_version ?? '?'}`,
  },
  Failed: {
    reason: 'UpdateFailed',
    message: ({ shadow: { spec, status } }) => {
      const { errorCode = 'no error code', message = 'no message' } = status?.lastOperation ?? {};
      return `The update to ${spec.version ?? '?'} failed: ${errorCode}: ${message}`;
    },
  },
};
