import type { Request } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';

/**
 * Reads a body as it was sent, for a signature that covers its bytes.
 * @throws Problem 413 if it is too large, 400 if the connection closes before its end
 */
export function readRaw(req: Request, maxBytes: number): Promise<Buffer> {
  if (req.destroyed) return Promise.reject(cutOff());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    req.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length <= maxBytes) {
        chunks.push(chunk);
        return;
      }
      // Discards the rest, so that the client can read the response before the connection closes.
      req.removeAllListeners('data');
      req.resume();
      reject(
        new Problem('body_too_large', `The body exceeds ${maxBytes} bytes.`, { headers: { Connection: 'close' } }),
      );
    });
    req.on('end', () => resolve(Buffer.concat(chunks)));
    req.on('error', () => reject(cutOff()));
  });
}

function cutOff(): Problem {
  return new Problem('invalid_json', 'The body ended early.');
}
