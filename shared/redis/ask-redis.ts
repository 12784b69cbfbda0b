import { EngineUnavailable } from '../errors/faults.js';

/** Calls Redis without a script. @throws EngineUnavailable */
export async function askRedis<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    throw error instanceof EngineUnavailable ? error : EngineUnavailable.from('redis', error);
  }
}
