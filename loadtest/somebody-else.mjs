// Somebody who asks an ordinary question all the time while others storm, in a thread of his own: in the generator's he would wait for
// its own work, and its slowness would be told as the server's.
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { ask, HttpClient } from './http-client.mjs';

const EVERY_MS = 20;

/**
 * @param {import('./tally.mjs').Tally} tally
 * @param {string} url of the server
 * @param {string} path what he asks
 * @returns {Promise<() => Promise<void>>} ends it, when his last question was answered
 */
export async function somebodyElse(tally, url, path) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { url, path } });
  worker.on('message', ([word, ...args]) => {
    if (word === 'sent') tally.sent(args[0]);
    else if (word === 'answered') tally.answered(args[0], args[1], args[2]);
    else if (word === 'broken') tally.broken(args[0], args[1]);
  });
  await once(worker, 'message');
  return async () => {
    const exited = once(worker, 'exit');
    worker.postMessage('enough');
    await exited;
  };
}

if (!isMainThread && parentPort !== null && workerData?.path) {
  const port = parentPort;
  const tell =
    (/** @type {string} */ word) =>
    (/** @type {unknown[]} */ ...args) =>
      port.postMessage([word, ...args]);
  const tally = { sent: tell('sent'), answered: tell('answered'), broken: tell('broken') };
  const client = new HttpClient(workerData.url);
  let asking = true;
  port.once('message', () => {
    asking = false;
  });
  await client.connect();
  tell('here')();
  while (asking) {
    await ask(tally, 'somebody else', client, client.prepare('GET', workerData.path, null));
    await pause(EVERY_MS);
  }
  client.close();
}
