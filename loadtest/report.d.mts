export function pageOf(report: Record<string, unknown>): string;
