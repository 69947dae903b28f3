import { held } from './held.ts';

// oxlint-disable-next-line import/no-default-export -- Jest calls the default export
export default async function globalTeardown(): Promise<void> {
  const controlPlane = held.controlPlane;
  held.controlPlane = undefined;
  await (await controlPlane)?.stop();
}
