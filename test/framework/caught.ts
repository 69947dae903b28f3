/** Returns what `act` throws. Throws when `act` does not throw. */
export function caught(act: () => unknown): unknown {
  let result: unknown;
  try {
    result = act();
  } catch (error) {
    return error;
  }
  throw new Error(`expected an error, got ${JSON.stringify(result)}`);
}
