/** What `act` throws. Throws itself when `act` throws nothing. */
export function caught(act: () => unknown): unknown {
  let result: unknown;
  try {
    result = act();
  } catch (error) {
    return error;
  }
  throw new Error(`expected an error, got ${JSON.stringify(result)}`);
}
