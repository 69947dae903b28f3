import { ACTIVATED_ANNOTATION } from '../api/names.ts';
import type { LastOperation } from '../api/shadow.ts';

/** That a version was about to be activated for the next boot of a host. The Node keeps it, since the shadow may be deleted before the boot is over. */
export interface Activation {
  readonly version: string;
  /** Of the boot in which it was. */
  readonly bootID: string;
  /** Of the shadow that asked for it. As long as that is there, what became of it is on record. */
  readonly shadowUID: string;
}

/** The part of a Node that keeps activations. */
export interface NodeOfActivations {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

/** How many versions are remembered. */
const KEPT = 3;
const ENTRY = /^(?<version>[0-9A-Za-z.+-]{1,64})@(?<bootID>[0-9A-Za-z-]{1,64})@(?<shadowUID>[0-9A-Za-z-]{1,64})$/u;

/** What the Node remembers, the latest last; entries that nobody can read are left out. */
export function readActivations({ metadata: { annotations = {} } }: NodeOfActivations): readonly Activation[] {
  return (annotations[ACTIVATED_ANNOTATION] ?? '').split(',').flatMap((text) => {
    const { version, bootID, shadowUID } = ENTRY.exec(text)?.groups ?? {};
    return version === undefined || bootID === undefined || shadowUID === undefined
      ? []
      : [{ version, bootID, shadowUID }];
  });
}

/** The activation that a step of a shadow makes or has made, or undefined: from `Activate` on the host may boot the version at any time. */
export function activationOf(step: LastOperation | undefined, shadowUID: string): Activation | undefined {
  if (step?.operation !== 'Activate' && step?.operation !== 'Reboot') return undefined;
  return step.state === 'Processing' ? { version: step.version, bootID: step.bootID, shadowUID } : undefined;
}

/** The annotation with one activation more, or undefined when it is there already or cannot be written down. The version that runs has come up: nothing of it is kept. */
export function rememberActivation(
  node: NodeOfActivations,
  activation: Activation,
  running: string,
): Readonly<Record<string, string>> | undefined {
  const { version } = activation;
  const known = readActivations(node);
  const text = textOf(activation);
  if (!ENTRY.test(text) || known.some((one) => textOf(one) === text)) return undefined;
  const kept = known.filter((one) => one.version !== version && one.version !== running).slice(1 - KEPT);
  return { [ACTIVATED_ANNOTATION]: [...kept, activation].map(textOf).join(',') };
}

function textOf({ version, bootID, shadowUID }: Activation): string {
  return `${version}@${bootID}@${shadowUID}`;
}
