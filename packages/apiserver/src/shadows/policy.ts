import type { AgentShadow, SpecReference } from '@brupop/shared/api/agent-protocol';
import type { BottlerocketShadow, DrainStatus, ShadowSpec, ShadowStatus } from '@brupop/shared/api/shadow';
import { type KubernetesObject, slimMetadata } from '@brupop/shared/api/meta';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';

/** A shadow as it is kept. Agents get spec and status; what the controller writes into it concerns neither them nor us. */
export interface SlimShadow extends KubernetesObject {
  /** Of the Node that it belongs to. */
  readonly nodeUID?: string;
  readonly spec: ShadowSpec;
  readonly status?: ShadowStatus;
  readonly drain?: DrainStatus;
}

export function slimShadow(raw: unknown): SlimShadow {
  const { metadata, spec, status } = raw as BottlerocketShadow;
  const { conditions: _, waitingFor: _waits, drain, ...reported } = status ?? {};
  const nodeUID = metadata.ownerReferences?.find(({ kind }) => kind === 'Node')?.uid;
  return {
    metadata: slimMetadata(metadata),
    ...(nodeUID === undefined ? {} : { nodeUID }),
    spec,
    ...(status == null ? {} : { status: reported as ShadowStatus }),
    ...(drain == null ? {} : { drain }),
  };
}

export function agentShadow({ metadata, spec, status }: SlimShadow): AgentShadow {
  const { uid, generation = 0 } = metadata;
  return { uid, generation, spec, ...(status === undefined ? {} : { status }) };
}

/** False for an agent whose token names another Node than the one that the shadow belongs to: an earlier or a later one of that name. */
export function concerns(
  { nodeUID: shadowsNode }: SlimShadow,
  { nodeUID: tokensNode }: Pick<Identity, 'nodeUID'>,
): boolean {
  return shadowsNode === undefined || tokensNode === undefined || shadowsNode === tokensNode;
}

/** Throws Failure `SpecChanged` when the shadow does not concern the agent. */
export function requireOwn(shadow: SlimShadow, identity: Pick<Identity, 'nodeUID'>): void {
  if (concerns(shadow, identity)) return;
  const found = `${shadow.metadata.name} is that of the Node with UID ${shadow.nodeUID}`;
  throw new ApiError('SpecChanged', `${found}, the token is for the one with UID ${identity.nodeUID}`);
}

/** True when the shadow belongs to the Node with this UID, so that it goes when that Node goes. */
export function isOwnedBy(shadow: BottlerocketShadow, nodeUID: string): boolean {
  return (shadow.metadata.ownerReferences ?? []).some((owner) => owner.kind === 'Node' && owner.uid === nodeUID);
}

/**
 * Lets a call pass that disturbs the node. Throws Failure `SpecChanged` when the agent acts for another spec than the current one, and
 * `SpecForbids` when the current one does not call for a reboot.
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
