import type { ControlPlane } from '../control-plane/start.ts';

interface Held {
  controlPlane: Promise<ControlPlane> | undefined;
}

const key = Symbol.for('brupop.test.held');
const globals = globalThis as unknown as Record<symbol, Held | undefined>;

/**
 * What one run's setup leaves for its teardown. Jest may load the two in separate module
 * registries, so it hangs on the global object.
 */
export const held: Held = (globals[key] ??= { controlPlane: undefined });
