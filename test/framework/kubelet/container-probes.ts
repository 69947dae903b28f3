import type { V1Container, V1Probe } from '@kubernetes/client-node';
import type { Clock } from '@brupop/shared/runtime/clock';
import { checkOnce } from './probe-check.ts';
import { probeLoop } from './probe-loop.ts';

export interface ContainerProbesOptions {
  readonly container: V1Container;
  /** The local address of the pod. */
  readonly host: string;
  readonly clock: Clock;
  /** Aborts when the process has ended. */
  readonly exited: AbortSignal;
  /**
   * Aborts when the pod is asked to end: from then on only readiness is probed, as in the kubelet.
   */
  readonly ending: AbortSignal;
  readonly onStarted: () => void;
  readonly onReady: (ready: boolean) => void;
  /** The container must be restarted. */
  readonly onUnhealthy: (probe: V1Probe, why: string) => void;
}

/** Runs the probes of one started container until it ends. */
export async function runProbes(options: ContainerProbesOptions): Promise<void> {
  const { container, exited, ending } = options;
  const { startupProbe, readinessProbe, livenessProbe } = container;
  const untilEnding = AbortSignal.any([exited, ending]);
  if (startupProbe && !(await starts(startupProbe, options, untilEnding))) return;
  options.onStarted();
  if (readinessProbe === undefined) options.onReady(true);
  await Promise.all([
    readinessProbe && watchReadiness(readinessProbe, options),
    livenessProbe && watchHealth(livenessProbe, options, untilEnding),
  ]);
}

async function starts(probe: V1Probe, options: ContainerProbesOptions, signal: AbortSignal): Promise<boolean> {
  let started = false;
  await probeLoop({
    ...common(probe, options, signal),
    eager: true,
    report: (result, why) => {
      started = result;
      if (!result) options.onUnhealthy(probe, `startup probe: ${why}`);
      return true;
    },
  });
  return started;
}

async function watchReadiness(probe: V1Probe, options: ContainerProbesOptions): Promise<void> {
  await probeLoop({
    ...common(probe, options, options.exited),
    eager: true,
    report: (result) => {
      options.onReady(result);
      return false;
    },
  });
}

async function watchHealth(probe: V1Probe, options: ContainerProbesOptions, signal: AbortSignal): Promise<void> {
  await probeLoop({
    ...common(probe, options, signal),
    eager: false,
    report: (result, why) => {
      if (!result) options.onUnhealthy(probe, `liveness probe: ${why}`);
      return !result;
    },
  });
}

function common(probe: V1Probe, { container, host, clock }: ContainerProbesOptions, signal: AbortSignal) {
  return { probe, clock, signal, check: async () => await checkOnce(probe, { host, container }, signal) };
}
