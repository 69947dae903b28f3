import type { ApiFault } from '../host/faults.ts';
import type { Cut } from '../kubelet/tcp-forwarder.ts';
import type { Random } from './random.ts';

/** A program of the operator, or of the control plane. */
export type Victim =
  | { readonly program: 'agent'; readonly node: string }
  | { readonly program: 'apiserver'; readonly which: 'all' | number }
  | { readonly program: 'controller'; readonly which: 'leader' | 'standby' | 'all' }
  | { readonly program: 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' };

/** A fault, as JSON, so that a run can be printed and repeated. Times are in milliseconds. */
export type Fault =
  /** SIGKILL; programs of the control plane are restarted after `forMs`. */
  | { readonly kind: 'killed'; readonly who: Victim; readonly forMs: number }
  /** SIGSTOP, and SIGCONT after `forMs`. */
  | { readonly kind: 'frozen'; readonly who: Victim; readonly forMs: number }
  /** One after the other, each when the previous one is ready again. */
  | { readonly kind: 'each API server killed' }
  /** Nothing passes between the node of the leading controller and kube-apiserver. */
  | { readonly kind: 'leader cut off'; readonly how: Cut; readonly forMs: number }
  /** All API servers are unavailable for this time. */
  | { readonly kind: 'no API server'; readonly forMs: number }
  /**
   * Nothing passes, or only in one direction, between pods of a node and the API server or
   * kube-apiserver.
   */
  | {
      readonly kind: 'cut off';
      readonly node: string;
      readonly from: 'API server' | 'kube-apiserver';
      readonly how: Cut;
      readonly forMs: number;
    }
  | { readonly kind: 'host API faulty'; readonly node: string; readonly fault: ApiFault; readonly forMs: number }
  | { readonly kind: 'host API crashed'; readonly node: string; readonly forMs: number }
  | { readonly kind: 'host locked'; readonly node: string; readonly forMs: number }
  | { readonly kind: 'host command killed'; readonly node: string }
  | { readonly kind: 'socket replaced'; readonly node: string }
  | { readonly kind: 'power cut'; readonly node: string }
  /** The next reboot within `forMs` does not come back until then. */
  | { readonly kind: 'slow to return'; readonly node: string; readonly forMs: number }
  /** The next boot of a new version within `forMs` rolls back to the old one. */
  | { readonly kind: 'boot rolls back'; readonly node: string; readonly forMs: number }
  | { readonly kind: 'shadow deleted'; readonly node: string }
  | { readonly kind: 'shadow edited'; readonly node: string; readonly edit: ShadowEdit }
  | { readonly kind: 'label removed'; readonly node: string; readonly forMs: number }
  /** The Node object and its host are removed, and a new one of the same name joins. */
  | { readonly kind: 'node replaced'; readonly node: string }
  | { readonly kind: 'pod deleted'; readonly program: 'agent' | 'apiserver' | 'controller'; readonly index: number }
  /** Evictions are rejected with 403. */
  | { readonly kind: 'evictions forbidden'; readonly forMs: number }
  /** The workload's disruption budget allows nothing. */
  | { readonly kind: 'budget strict'; readonly forMs: number };

/** What a user may do to a shadow. */
export type ShadowEdit = 'spec to Idle' | 'spec to reboot' | 'another version' | 'status as if drained' | 'status gone';

export type FaultKind = Fault['kind'];

/**
 * Faults that stop pods themselves, so that a disruption budget may be violated without an
 * eviction.
 */
export const TAKES_PODS_DOWN: ReadonlySet<FaultKind> = new Set(['power cut', 'slow to return', 'node replaced']);

const CUTS: readonly Cut[] = ['reset', 'hang', 'requests lost', 'answers lost'];
const ANSWERS: readonly ApiFault['answer'][] = ['hang', 'garbage', 'truncated', 'empty', 'error', 'slow'];
const EDITS: readonly ShadowEdit[] = [
  'spec to Idle',
  'spec to reboot',
  'another version',
  'status as if drained',
  'status gone',
];
const CONTROL_PLANE = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;

type Draw = (random: Random, node: string) => Fault;

/** Generators of a random fault of each kind. Short times are more likely. */
const DRAWS: { readonly [K in FaultKind]: Draw } = {
  killed: (random, node) => ({ kind: 'killed', who: victim(random, node), forMs: briefly(random) }),
  frozen: (random, node) => ({ kind: 'frozen', who: victim(random, node), forMs: whileFrozen(random) }),
  'each API server killed': () => ({ kind: 'each API server killed' }),
  'leader cut off': (random) => ({ kind: 'leader cut off', how: random.pick(CUTS), forMs: whileFrozen(random) }),
  'no API server': (random) => ({ kind: 'no API server', forMs: random.whole(2_000, 20_000) }),
  'cut off': (random, node) => ({
    kind: 'cut off',
    node,
    from: random.pick(['API server', 'kube-apiserver']),
    how: random.pick(CUTS),
    forMs: whileFrozen(random),
  }),
  'host API faulty': (random, node) => ({
    kind: 'host API faulty',
    node,
    fault: { answer: random.pick(ANSWERS), delayMs: 500 },
    forMs: briefly(random),
  }),
  'host API crashed': (random, node) => ({ kind: 'host API crashed', node, forMs: briefly(random) }),
  'host locked': (random, node) => ({ kind: 'host locked', node, forMs: briefly(random) }),
  'host command killed': (_random, node) => ({ kind: 'host command killed', node }),
  'socket replaced': (_random, node) => ({ kind: 'socket replaced', node }),
  'power cut': (_random, node) => ({ kind: 'power cut', node }),
  'slow to return': (random, node) => ({ kind: 'slow to return', node, forMs: random.whole(2_000, 8_000) }),
  'boot rolls back': (random, node) => ({ kind: 'boot rolls back', node, forMs: random.whole(2_000, 8_000) }),
  'shadow deleted': (_random, node) => ({ kind: 'shadow deleted', node }),
  'shadow edited': (random, node) => ({ kind: 'shadow edited', node, edit: random.pick(EDITS) }),
  'label removed': (random, node) => ({ kind: 'label removed', node, forMs: briefly(random) }),
  'node replaced': (_random, node) => ({ kind: 'node replaced', node }),
  'pod deleted': (random) => ({
    kind: 'pod deleted',
    program: random.pick(['agent', 'apiserver', 'controller']),
    index: random.whole(0, 5),
  }),
  'evictions forbidden': (random) => ({ kind: 'evictions forbidden', forMs: briefly(random) }),
  'budget strict': (random) => ({ kind: 'budget strict', forMs: briefly(random) }),
};

/** Faults of processes are more frequent than those of hosts and users. */
const LIKELY: readonly FaultKind[] = ['killed', 'killed', 'killed', 'frozen', 'frozen', 'cut off', 'cut off'];

const FAULT_KINDS = Object.keys(DRAWS) as FaultKind[];

/** A random fault in a fleet of these nodes. */
export function drawFault(random: Random, nodes: readonly string[]): Fault {
  return DRAWS[random.pick([...FAULT_KINDS, ...LIKELY])](random, random.pick(nodes));
}

function victim(random: Random, node: string): Victim {
  return random.pick<() => Victim>([
    () => ({ program: 'agent', node }),
    () => ({ program: 'agent', node }),
    () => ({ program: 'apiserver', which: random.whole(0, 2) }),
    () => ({ program: 'apiserver', which: random.pick(['all', 0, 1, 2]) }),
    () => ({ program: 'controller', which: random.pick(['leader', 'standby', 'all']) }),
    () => ({ program: random.pick(CONTROL_PLANE) }),
  ])();
}

function briefly(random: Random): number {
  return Math.round(100 * 40 ** random.fraction());
}

/** Up to longer than the lease of a controller and the time limits of a call. */
function whileFrozen(random: Random): number {
  return Math.round(200 * 100 ** random.fraction());
}
