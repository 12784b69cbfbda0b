/** Returns a function that calls another one the first time, and does nothing afterwards. */
export function once(call: () => void): () => void {
  let isCalled = false;
  return () => {
    if (isCalled) return;
    isCalled = true;
    call();
  };
}
