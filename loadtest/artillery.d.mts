import type { Step } from './scenarios.mjs';

export function hasArtillery(): boolean;
export function wholeScript(script: object, target: string): { config: object; scenarios: Step[] };
