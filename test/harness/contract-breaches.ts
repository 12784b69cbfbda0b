const breaches: string[] = [];

/** Notes a response of a process that breaks the contract of its route; the test that runs now fails. */
export function noteBreach(breach: string): void {
  breaches.push(breach);
}

/** Called after each test and at the end of a test file by leaks.ts. @throws Error with what has been noted since */
export function failOnBreaches(): void {
  const found = [...new Set(breaches.splice(0))];
  if (found.length > 0) throw new Error(found.join('\n'));
}
