import { ERROR_CODES, isErrorCode } from '@brupop/shared/api/error-codes';
import {
  FAILED_ATTEMPTS_ANNOTATION,
  DEFERRED_AFTER_ANNOTATION,
  RETRY_ANNOTATION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
  UNREPORTED_ATTEMPTS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
} from '@brupop/shared/api/names';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
import { crPath } from '@brupop/shared/kube/paths';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { AssumeCache } from '../cluster/assume-cache.ts';
import { readShadow, type ShadowView } from '../cluster/shadow.ts';
import type { Metrics } from '../metrics.ts';
import { oneMoreAttempt, startedAt, unanswered } from '../plan/attempts.ts';
import type { SpecWrite } from '../plan/plan.ts';
import { type Outcome, sameSettings } from '../plan/transition.ts';
import { type EventReason, type NodeOccurrence, occurrenceAt } from './events.ts';
import { forEachOf, FieldPrunedError, type Writer } from './writer.ts';

export interface SpecWriterOptions {
  readonly client: KubeClient;
  readonly log: Logger;
  readonly writes: Writer;
  readonly events: Events;
  readonly metrics: Metrics;
  readonly assumeCache: AssumeCache;
}

/** Key of a shadow's spec in {@link Writer}. */
export function specKey(uid: string): string {
  return `spec/${uid}`;
}

/** A definition of an earlier release, or a webhook, has dropped the field. */
const NOT_KEPT = 'it does not keep spec.hostSettings; install the CustomResourceDefinition of this release';

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
      if (writes.canWrite(key) && (await writes.attempt('spec', key, signal, () => this.#send(write, signal))))
        unwritten.delete(uid);
    });
    return unwritten;
  }

  async #send(write: SpecWrite, signal: AbortSignal): Promise<void> {
    const { client, log, events, assumeCache, metrics } = this.#options;
    const { name, namespace = '' } = write.shadow.metadata;
    const path = crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace, name });
    const answer = readShadow(await client.mergePatch(path, patchOf(write), { signal }));
    assumeCache.shadow(answer);
    const { outcome, spec, node } = write;
    if (!sameSettings(answer.spec.hostSettings, spec.hostSettings)) throw new FieldPrunedError(NOT_KEPT);
    log.info('spec written', { node: node.metadata.name, outcome, state: spec.state, version: spec.version ?? null });
    const occurrence = occurrenceOf(write);
    if (occurrence !== undefined) events.record(occurrenceAt(occurrence));
    if (outcome === 'Cancelled') metrics.deadlineExceeded(write.shadow.spec.state);
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
      timeoutSeconds: spec.timeoutSeconds ?? null,
      hostSettings: settingsPatch(spec.hostSettings),
    },
  };
}

/** Each setting by name, since a merge patch leaves alone what it does not name. */
function settingsPatch(settings: ShadowSpec['hostSettings']): object | null {
  if (settings == null) return null;
  return { versionLock: settings.versionLock ?? null, ignoreWaves: settings.ignoreWaves ?? null };
}

/**
 * A start uses up the annotation that asked for it: a second failure is not retried blindly. What was called off is counted here, since the
 * agent counts only what it reports; and so is what failed with one version. A success ends the count and leaves how long it took.
 */
function annotationsOf(write: SpecWrite): Readonly<Record<string, string | null>> | undefined {
  const { shadow, outcome, spec } = write;
  switch (outcome) {
    case 'Started':
      return {
        [UPDATE_STARTED_ANNOTATION]: spec.state_transition_timestamp ?? null,
        ...without(shadow, RETRY_ANNOTATION),
      };
    case 'Failed':
      return countsAgainst(shadow) ? oneMore(shadow) : undefined;
    case 'Cancelled':
      return { ...oneMore(shadow), [UNREPORTED_ATTEMPTS_ANNOTATION]: String(unanswered(shadow) + 1) };
    case 'Deferred':
      return putOff(write);
    case 'Succeeded':
      return {
        ...tookSeconds(shadow, spec),
        ...without(shadow, UNREPORTED_ATTEMPTS_ANNOTATION, FAILED_ATTEMPTS_ANNOTATION, DEFERRED_AFTER_ANNOTATION),
      };
    default:
      return undefined;
  }
}

function oneMore(shadow: ShadowView): Readonly<Record<string, string>> {
  return { [FAILED_ATTEMPTS_ANNOTATION]: oneMoreAttempt(shadow, shadow.spec.version ?? '') };
}

/** What soon passes does not use up the attempts with a version. */
function countsAgainst({ status }: ShadowView): boolean {
  const code = status?.lastOperation?.errorCode;
  return code === undefined || !isErrorCode(code) || ERROR_CODES[code] !== 'RetrySoon';
}

function without({ metadata: { annotations = {} } }: ShadowView, ...names: string[]): Readonly<Record<string, null>> {
  return Object.fromEntries(names.filter((name) => annotations[name] !== undefined).map((name) => [name, null]));
}

/** An update that ran past a deadline says nothing about the next. */
function tookSeconds(shadow: ShadowView, spec: ShadowSpec): Readonly<Record<string, string>> {
  const seconds = shadow.progressing?.reason === 'DeadlineExceeded' ? undefined : secondsSoFar(shadow, spec);
  return seconds === undefined ? {} : { [UPDATE_SECONDS_ANNOTATION]: String(seconds) };
}

/** A node that did not fit into its window will need at least as long the next time: else it would be staged in vain in each window. */
function putOff({ shadow, spec, because }: SpecWrite): Readonly<Record<string, string>> | undefined {
  const seconds = secondsSoFar(shadow, spec);
  const closed = because?.reason === 'OutsideMaintenanceWindow' || because?.reason === 'WindowTooShort';
  return closed && seconds !== undefined ? { [DEFERRED_AFTER_ANNOTATION]: String(seconds) } : undefined;
}

/** Since the update began; undefined when the times do not tell. */
function secondsSoFar(shadow: ShadowView, spec: ShadowSpec): number | undefined {
  const began = startedAt(shadow);
  const ended = parseTime(spec.state_transition_timestamp);
  if (began === undefined || ended === undefined || ended < began) return undefined;
  return Math.ceil((ended - began) / 1000);
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
  Cancelled: {
    reason: 'DeadlineExceeded',
    message: ({ because }) => because?.message ?? 'A step of the update had no result within its limit',
  },
  Deferred: {
    reason: 'UpdateDeferred',
    message: ({ because }) => {
      const why = because?.message ?? 'The node cannot be drained now; its condition Progressing says why';
      return `The update is staged, and begins again later. ${why}`;
    },
  },
  Interrupted: {
    reason: 'UpdateInterrupted',
    message: () => 'BrupopConfig "cluster" interrupts updates: this one is undone, and begins again after the pause',
  },
  Superseded: {
    reason: 'UpdateSuperseded',
    message: ({ shadow: { spec } }) =>
      `BrupopConfig "cluster" does not allow ${spec.version ?? '?'} any more: this update is undone`,
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
