import { SHADOW_PLURAL, SHADOW_VERSION } from '@brupop/shared/api/names';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
import { crPath } from '@brupop/shared/kube/paths';
import type { Logger } from '@brupop/shared/runtime/log';
import type { AssumeCache } from '../cluster/assume-cache.ts';
import { readShadow } from '../cluster/shadow.ts';
import type { Metrics } from '../metrics.ts';
import type { SpecChange } from '../plan/spec-change.ts';
import { sameSettings } from '../plan/transition.ts';
import { eventSource } from './events.ts';
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

/** A CustomResourceDefinition of an earlier release, or a webhook, dropped the field. */
const NOT_KEPT = 'it does not keep spec.hostSettings; install the CustomResourceDefinition of this release';

/** Writes specs, each only onto the very resourceVersion that it was planned from. */
export class SpecWriter {
  readonly #options: SpecWriterOptions;

  constructor(options: SpecWriterOptions) {
    this.#options = options;
  }

  /** Returns the UIDs of the shadows that were not written. */
  async write(specs: readonly SpecChange[], signal: AbortSignal): Promise<ReadonlySet<string>> {
    const unwritten = new Set(specs.map(({ shadow }) => shadow.metadata.uid));
    await forEachOf(specs, async (change) => {
      const { uid } = change.shadow.metadata;
      const key = specKey(uid);
      const { writes } = this.#options;
      if (writes.canWrite(key) && (await writes.attempt('spec', key, signal, () => this.#send(change, signal))))
        unwritten.delete(uid);
    });
    return unwritten;
  }

  async #send(change: SpecChange, signal: AbortSignal): Promise<void> {
    const { client, log, events, assumeCache, metrics } = this.#options;
    const { name, namespace = '' } = change.shadow.metadata;
    const path = crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace, name });
    const answer = readShadow(await client.mergePatch(path, patchOf(change), { signal }));
    assumeCache.shadow(answer);
    const { outcome, spec, node, event } = change;
    if (!sameSettings(answer.spec.hostSettings, spec.hostSettings)) throw new FieldPrunedError(NOT_KEPT);
    log.info('spec written', { node: node.metadata.name, outcome, state: spec.state, version: spec.version ?? null });
    if (event !== undefined) events.record(eventSource(event));
    if (outcome === 'Cancelled') metrics.deadlineExceeded.inc({ state: change.shadow.spec.state });
  }
}

/** The merge patch of a change. */
export function patchOf(change: SpecChange): object {
  const { shadow, spec, annotations } = change;
  const { uid, resourceVersion } = shadow.metadata;
  return {
    metadata: { uid, resourceVersion, ...(Object.keys(annotations).length > 0 && { annotations }) },
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
