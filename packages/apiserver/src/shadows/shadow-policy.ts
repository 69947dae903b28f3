import type { KubernetesObject } from '@brupop/shared/kubernetes-types';
import type { AgentShadow, SpecReference } from '@brupop/shared/operator-api';
import type { BottlerocketShadow, ShadowSpec, ShadowStatus } from '@brupop/shared/shadow';

import { Failure } from '../failure.ts';
import { slimMetadata } from '../slim.ts';

/** A shadow as it is kept and sent: without the conditions, which agents do not read. */
export interface SlimShadow extends KubernetesObject {
  readonly spec: ShadowSpec;
  readonly status?: ShadowStatus;
}

export function slimShadow(raw: unknown): SlimShadow {
  const { metadata, spec, status } = raw as BottlerocketShadow;
  const { conditions: _, ...reported } = status ?? {};
  return {
    metadata: slimMetadata(metadata),
    spec,
    ...(status == null ? {} : { status: reported as ShadowStatus }),
  };
}

export function agentShadow({ metadata, spec, status }: SlimShadow): AgentShadow {
  const { uid, generation = 0 } = metadata;
  return { uid, generation, spec, ...(status === undefined ? {} : { status }) };
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
    throw new Failure(
      'SpecChanged',
      `${name}: the shadow is ${uid}, generation ${generation}, the call is for ${found}`,
    );
  }
  if (deletionTimestamp !== undefined) throw new Failure('SpecForbids', `${name} is being deleted`);
  if (shadow.spec.state !== 'RebootedIntoUpdate') {
    const found = shadow.spec.state;
    throw new Failure('SpecForbids', `${name}: spec.state: expected RebootedIntoUpdate, found ${found}`);
  }
}
