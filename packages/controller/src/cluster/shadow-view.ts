import {
  FAILED_ATTEMPTS_ANNOTATION,
  RETRY_ANNOTATION,
  UNANSWERED_ANNOTATION,
  PUT_OFF_SECONDS_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
} from '@brupop/shared/constants';
import type { Condition, ObjectMeta } from '@brupop/shared/kubernetes-types';
import type { BottlerocketShadow, ShadowStatus } from '@brupop/shared/shadow';
import type { NodeView } from './node-view.ts';
import { pick } from './node-view.ts';
import { shadowProblem } from './shadow-problem.ts';

/** The condition that this controller keeps on each shadow. */
export const PROGRESSING = 'Progressing';

/** A shadow cut to what decisions need. */
export interface ShadowView extends BottlerocketShadow {
  /** The Progressing condition as last seen; also there when no agent has reported yet. */
  readonly progressing: Condition | undefined;
}

type RawShadow = Omit<BottlerocketShadow, 'status'> & { readonly status?: Partial<ShadowStatus> };

/** True when {@link readShadow} can read it. A CustomResourceDefinition of another release may have let anything in. */
export function isReadable(raw: unknown): raw is RawShadow {
  return shadowProblem(raw) === undefined;
}

/**
 * Cuts a shadow as the API server sends it, and brings the status that the Rust operator's agents wrote to today's form: they report no
 * `observedGeneration`, so their status answers the spec when it names the same state, or a failure.
 * Throws an error that names the field which is not as it must be.
 */
export function readShadow(raw: unknown): ShadowView {
  const problem = shadowProblem(raw);
  if (problem !== undefined) throw new Error(problem);
  const shadow = raw as RawShadow;
  const { metadata, spec, status } = shadow;
  return {
    metadata: readMetadata(metadata),
    spec: {
      state: spec.state,
      version: spec.version ?? null,
      state_transition_timestamp: spec.state_transition_timestamp ?? null,
      timeoutSeconds: spec.timeoutSeconds ?? null,
      hostSettings: spec.hostSettings ?? null,
    },
    ...readStatus(shadow),
    progressing: status?.conditions?.find(({ type }) => type === PROGRESSING),
  };
}

const ANNOTATIONS = [
  RETRY_ANNOTATION,
  UNANSWERED_ANNOTATION,
  FAILED_ATTEMPTS_ANNOTATION,
  UPDATE_STARTED_ANNOTATION,
  UPDATE_SECONDS_ANNOTATION,
  PUT_OFF_SECONDS_ANNOTATION,
];

function readMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, uid, resourceVersion, namespace = '', generation = 0, ownerReferences = [] } = metadata;
  const annotations = pick(metadata.annotations, ANNOTATIONS);
  const { creationTimestamp = '' } = metadata;
  return { name, uid, resourceVersion, namespace, generation, annotations, ownerReferences, creationTimestamp };
}

const UNREPORTED = {
  current_version: '',
  target_version: '',
  crash_count: 0,
  state_transition_failure_timestamp: null,
  bootID: '',
} as const;

/** A status without `current_state` is none: only this controller has written to it. */
function readStatus({ metadata, spec, status }: RawShadow): { status?: ShadowStatus } {
  const { current_state, observedGeneration, conditions: _, waitingFor: _ours, ...reported } = status ?? {};
  if (current_state == null) return {};
  const answered = current_state === spec.state || current_state === 'ErrorReset';
  const generation = observedGeneration ?? (answered ? (metadata.generation ?? 0) : -1);
  return { status: { ...UNREPORTED, ...reported, current_state, observedGeneration: generation } };
}

/** True when the agent's report is about the spec as it is now. */
export function answers({ metadata, status }: BottlerocketShadow): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation;
}

/** True when the agent reports that the node has come to where its spec wants it. */
export function hasReached(shadow: BottlerocketShadow): boolean {
  return answers(shadow) && shadow.status?.current_state === shadow.spec.state;
}

/** True when nothing is under way: the spec says Idle and the agent has confirmed it. */
export function isSettled(shadow: BottlerocketShadow): boolean {
  return shadow.spec.state === 'Idle' && hasReached(shadow);
}

/** True while the spec calls for a step of an update. */
export function isUnderWay({ spec }: BottlerocketShadow): boolean {
  return spec.state !== 'Idle' && spec.state !== 'ErrorReset';
}

/** True when the shadow belongs to this very Node, not to an earlier one of the same name. */
export function isOwnedBy(shadow: BottlerocketShadow, node: NodeView): boolean {
  return (shadow.metadata.ownerReferences ?? []).some(({ kind, uid }) => kind === 'Node' && uid === node.metadata.uid);
}
