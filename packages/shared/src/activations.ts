import { ACTIVATED_ANNOTATION } from './constants.ts';
import type { LastOperation } from './shadow.ts';

/** That a version was about to be activated for the next boot of a host. The Node keeps it, since the shadow may be deleted before the boot is over. */
export interface Activation {
  readonly version: string;
  /** Of the boot in which it was. */
  readonly bootID: string;
}

/** The part of a Node that keeps activations. */
export interface NodeOfActivations {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

/** How many versions are remembered. */
const KEPT = 3;
const ENTRY = /^(?<version>[0-9A-Za-z.+-]{1,64})@(?<bootID>[0-9A-Za-z-]{1,64})$/u;

/** What the Node remembers, the latest last; entries that nobody can read are left out. */
export function readActivations({ metadata: { annotations = {} } }: NodeOfActivations): readonly Activation[] {
  return (annotations[ACTIVATED_ANNOTATION] ?? '').split(',').flatMap((text) => {
    const { version, bootID } = ENTRY.exec(text)?.groups ?? {};
    return version === undefined || bootID === undefined ? [] : [{ version, bootID }];
  });
}

/** The activation that a step makes or has made, or undefined: from `Activate` on the host may boot the version at any time. */
export function activationOf(step: LastOperation | undefined): Activation | undefined {
  if (step?.operation !== 'Activate' && step?.operation !== 'Reboot') return undefined;
  return step.state === 'Processing' ? { version: step.version, bootID: step.bootID } : undefined;
}

/** The annotation with one activation more, or undefined when it is there already or cannot be written down. The version that runs has come up: nothing of it is kept. */
export function rememberActivation(
  node: NodeOfActivations,
  { version, bootID }: Activation,
  running: string,
): Readonly<Record<string, string>> | undefined {
  const text = `${version}@${bootID}`;
  const known = readActivations(node);
  if (!ENTRY.test(text) || known.some((one) => one.version === version && one.bootID === bootID)) return undefined;
  const kept = known.filter((one) => one.version !== version && one.version !== running).slice(1 - KEPT);
  const texts = [...kept.map((one) => `${one.version}@${one.bootID}`), text];
  return { [ACTIVATED_ANNOTATION]: texts.join(',') };
}
