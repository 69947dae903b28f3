import type { AgentShadow, SpecReference } from '@brupop/shared/api/agent-protocol';
import { AGENT_SUPPORTED } from '@brupop/shared/api/names';
import { readRecord } from '@brupop/shared/api/record';
import type { BottlerocketShadow, DrainStatus, ShadowSpec, ShadowStatus } from '@brupop/shared/api/shadow';
import { type Condition, type KubernetesObject, slimMetadata } from '@brupop/shared/api/meta';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';

/** A shadow without what the controller reports in its status. */
export interface SlimShadow extends KubernetesObject {
  readonly nodeUID?: string;
  readonly spec: ShadowSpec;
  readonly status?: ShadowStatus;
  readonly drain?: DrainStatus;
  /** The condition {@link AGENT_SUPPORTED}, if there is one. */
  readonly agentSupported?: Condition;
  /** The node group that its update began with. */
  readonly group: string | undefined;
  /** When its latest update started, for log lines. */
  readonly attempt: string | undefined;
}

export function slimShadow(raw: unknown): SlimShadow {
  const { metadata, spec, status } = raw as BottlerocketShadow;
  const { conditions, waitingFor: _waits, waitingReason: _why, group: _current, drain, ...reported } = status ?? {};
  const agentSupported = conditions?.find(({ type }) => type === AGENT_SUPPORTED);
  const { group, startedAt } = readRecord(metadata);
  const nodeUID = metadata.ownerReferences?.find(({ kind }) => kind === 'Node')?.uid;
  return {
    metadata: slimMetadata(metadata),
    ...(nodeUID === undefined ? {} : { nodeUID }),
    group,
    attempt: startedAt,
    spec,
    ...(status == null ? {} : { status: reported as ShadowStatus }),
    ...(drain == null ? {} : { drain }),
    ...(agentSupported === undefined ? {} : { agentSupported }),
  };
}

export function agentShadow({ metadata, spec, status, attempt }: SlimShadow): AgentShadow {
  const { uid, generation = 0 } = metadata;
  return { uid, generation, spec, ...(status && { status }), ...(attempt !== undefined && { attempt }) };
}

/** False when token and shadow belong to different Nodes of the same name. */
export function concerns(
  { nodeUID: shadowsNode }: SlimShadow,
  { nodeUID: tokensNode }: Pick<Identity, 'nodeUID'>,
): boolean {
  return shadowsNode === undefined || tokensNode === undefined || shadowsNode === tokensNode;
}

/** Throws ApiError `SpecChanged` when the shadow does not concern the agent. */
export function requireOwn(shadow: SlimShadow, identity: Pick<Identity, 'nodeUID'>): void {
  if (concerns(shadow, identity)) return;
  const found = `${shadow.metadata.name} is that of the Node with UID ${shadow.nodeUID}`;
  throw new ApiError('SpecChanged', `${found}, the token is for the one with UID ${identity.nodeUID}`);
}

/**
 * Permits a call that disturbs the node. Throws ApiError `SpecChanged` when the call is for another
 * generation of the spec, and `SpecForbids` when the spec does not call for a reboot.
 */
export function requireReboot(shadow: SlimShadow, reference: SpecReference): void {
  const { uid, generation = 0, name, deletionTimestamp } = shadow.metadata;
  if (reference.shadowUID !== uid || reference.generation !== generation) {
    const found = `${reference.shadowUID}, generation ${reference.generation}`;
    throw new ApiError(
      'SpecChanged',
      `${name}: the shadow is ${uid}, generation ${generation}, the call is for ${found}`,
    );
  }
  if (deletionTimestamp !== undefined) throw new ApiError('SpecForbids', `${name} is being deleted`);
  if (shadow.spec.state !== 'RebootedIntoUpdate') {
    const found = shadow.spec.state;
    throw new ApiError('SpecForbids', `${name}: spec.state: expected RebootedIntoUpdate, found ${found}`);
  }
}
