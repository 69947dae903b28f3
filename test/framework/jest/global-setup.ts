import { startSharedControlPlane } from '../control-plane/shared.ts';
import { held } from './held.ts';

// oxlint-disable-next-line import/no-default-export -- Jest calls the default export
export default async function globalSetup(): Promise<void> {
  held.controlPlane ??= startSharedControlPlane();
  await held.controlPlane;
}
