// Preloaded into an API of a test (--import): each of its responses is compared with the contract of its route.
// What differs is sent as 500 with the reason, and is a line of the log, which test/harness/service.ts reads.
const CHECK = new URL('../../dist/api/http/contract-check.js', import.meta.url);
/** @type {typeof import('../../api/http/contract-check.js')} */
const { checkResponses } = await import(CHECK.href);

checkResponses((breach) =>
  process.stdout.write(
    `${JSON.stringify({ level: 50, breach, msg: 'a response breaks the contract of its route' })}\n`,
  ),
);
