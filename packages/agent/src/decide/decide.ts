import type { AgentShadow } from '@brupop/shared/operator-api';
import type { Operation, ShadowState } from '@brupop/shared/shadow';

import type { Action } from '../action.ts';
import { idle } from './decide-idle.ts';
import { reboot, wrongBoot } from './decide-reboot.ts';
import { stage } from './decide-stage.ts';
import type { Context } from './decision.ts';
import { baseStatus, contextOf, fail, hasFailed, settle, wait } from './decision.ts';
import { LIMITS } from '../limits.ts';
import type { MemoryView } from '../memory.ts';
import { attemptKey } from '../memory.ts';
import type { Observation } from '../observe.ts';
import { began } from '../status.ts';

/** Names what is seen and chooses the one thing to do next. Pure: the truth is the host, its boot ID and the shadow; memory only paces. */
export function decide(seen: Observation, memory: MemoryView): Action {
  return rebooting(seen, memory) ?? lost(seen, memory) ?? paced(seen, memory, choose(seen, memory));
}

/** A host that was asked to reboot may go down at any moment: whatever the spec says now, nothing is begun. */
function rebooting(seen: Observation, { reboot: asked }: MemoryView): Action | undefined {
  if (asked === undefined || asked.bootID !== seen.bootID) return undefined;
  const untilMs = asked.atMs + LIMITS.rebootAgain;
  return untilMs > seen.nowMs ? wait(seen, 'the host was asked to reboot', untilMs) : undefined;
}

/** Mounts and environment that have gone stale are only renewed with the container. */
function lost(seen: Observation, memory: MemoryView): Action | undefined {
  const refusedMs = seen.nowMs - (memory.hostRefusedSince ?? seen.nowMs);
  if (seen.host.kind === 'silent' && seen.host.refused && refusedMs > LIMITS.staleSocket) {
    const reason = `nobody has listened on the host's socket for ${Math.round(refusedMs / 1000)} s, its mount may be stale: ${seen.host.message}`;
    return { do: 'exit', reason };
  }
  if (seen.apiSilentMs <= LIMITS.apiSilent) return undefined;
  return { do: 'exit', reason: `the apiserver has not been reached for ${Math.round(seen.apiSilentMs / 1000)} s` };
}

/** Calls wait while what they call is in trouble. */
function paced(seen: Observation, memory: MemoryView, action: Action): Action {
  const { refused } = memory;
  if (action.do === 'wait' || action.do === 'exit') return action;
  if (action.do === 'command' || action.do === 'reboot') {
    return memory.host.notBefore > seen.nowMs
      ? wait(seen, `pausing after trouble with the host before: ${action.reason}`, memory.host.notBefore)
      : action;
  }
  const stale = refused !== undefined && seen.shadow !== undefined && refused.key === attemptKey(seen.shadow);
  const notBefore = Math.max(memory.api.notBefore, stale ? refused.notBefore : 0);
  return notBefore > seen.nowMs
    ? wait(seen, `pausing after trouble with the apiserver before: ${action.reason}`, notBefore)
    : action;
}

function choose(seen: Observation, memory: MemoryView): Action {
  const { shadow, host } = seen;
  if (shadow === undefined) return wait(seen, 'the apiserver has not sent the shadow yet');
  if (host.kind === 'silent') return silentHost(seen, memory, shadow);
  const context = contextOf(seen, memory, shadow, host);
  return wrongBoot(context) ?? drive(context);
}

function drive(c: Context): Action {
  const { state, version } = c.shadow.spec;
  if (state === 'MonitoringUpdate') return settle(c, { current_state: 'MonitoringUpdate' }, 'monitoring');
  if (state === 'Idle' || state === 'ErrorReset') return idle(c);
  if (version == null || version === '') return wait(c.seen, `the spec asks for ${state} without a version`);
  return state === 'StagedAndPerformedUpdate' ? stage(c, version) : reboot(c, version);
}

function silentHost(seen: Observation, memory: MemoryView, shadow: AgentShadow): Action {
  const message = seen.host.kind === 'silent' ? seen.host.message : '';
  const silentMs = seen.nowMs - (memory.hostSilentSince ?? seen.nowMs);
  const failure = silentMs > LIMITS.hostSilent ? unreachable(seen, shadow, silentMs, message) : undefined;
  const untilMs = Math.max(memory.host.notBefore, seen.nowMs + LIMITS.pollFirst);
  return failure ?? wait(seen, `the host does not answer: ${message}`, untilMs);
}

const OPERATION_OF: Partial<Record<ShadowState, Operation>> = {
  StagedAndPerformedUpdate: 'Stage',
  RebootedIntoUpdate: 'Drain',
};

/** Fails the step that needs the host. What is not known now is reported as it was. */
function unreachable(seen: Observation, shadow: AgentShadow, silentMs: number, message: string): Action | undefined {
  const { spec, status } = shadow;
  const operation = OPERATION_OF[spec.state];
  if (operation === undefined || spec.version == null) return undefined;
  if (status === undefined || hasFailed({ shadow })) return undefined;
  const { bootID, wallMs } = seen;
  const last = status.lastOperation;
  const step = last?.state === 'Processing' ? last : began(operation, { version: spec.version, bootID, wallMs });
  const { current_version, target_version } = status;
  const base = baseStatus(shadow, { current_version, target_version, bootID });
  return fail(seen, base, {
    code: 'HostUnreachable',
    message: `no answer for ${Math.round(silentMs / 1000)} s: ${message}`,
    step,
  });
}
