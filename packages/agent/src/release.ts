/**
 * When an agent ends. When the label of a pinned node is removed, the controller of the DaemonSet deletes the pod of its
 * agent at once, before the spec that no longer requests the version lock arrives. The host would keep the lock, and no
 * operator would know of it. So an agent that is asked to end first waits for that spec, and then until
 * it has released what the operator wrote for updates. A new agent of a node that keeps its label continues with it.
 *
 *     nothing recorded                          ends at once
 *     recorded, and the spec still requests it  ends after NOTICE_MS: the pod is replaced, as in an upgrade
 *     recorded, no longer requested             ends when it is released, after LIMIT_MS at the latest
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import type { Clock } from '@brupop/shared/runtime/clock';

/** The controller needs about a second to see the label and write the spec. */
const NOTICE_MS = 5_000;
/** The pod has 30 seconds. */
const LIMIT_MS = 20_000;
const PAUSE_MS = 100;
/** For `run`: the rest of the 30 seconds is for the end of the process. */
export const STOP_LIMIT_MS = LIMIT_MS + 5_000;

/** @returns a signal that aborts after `stop`, when nothing has to be released any more */
export function endAfterRelease(stop: AbortSignal, clock: Clock, shadow: () => AgentShadow | undefined): AbortSignal {
  const end = new AbortController();
  const lookSince = (since: number): void => {
    const waited = clock.monotonic() - since;
    if (waited >= limitOf(shadow())) end.abort(stop.reason);
    else clock.after(PAUSE_MS, () => lookSince(since));
  };
  const begin = (): void => lookSince(clock.monotonic());
  if (stop.aborted) begin();
  else stop.addEventListener('abort', begin, { once: true });
  return end.signal;
}

function limitOf(shadow: AgentShadow | undefined): number {
  const recorded = keysOf(shadow?.status?.settings?.records);
  // Its host is about to go down; the agent after the boot continues.
  if (recorded.length === 0 || shadow?.spec.state === 'RebootedIntoUpdate') return 0;
  const requested = keysOf(shadow?.spec.settings?.leaves);
  return recorded.every((key) => requested.includes(key)) ? NOTICE_MS : LIMIT_MS;
}

function keysOf(settings: readonly { readonly key: string }[] = []): readonly string[] {
  return settings.map(({ key }) => key).filter((key) => UPDATER_SETTINGS.includes(key));
}
