import type { Request, Response } from 'express';
import type { z } from 'zod';
import type { ErrorCode } from '../../shared/errors/catalogue.js';

export type Caller = 'anyone' | 'shopper' | 'ticket' | 'service' | 'service or ticket' | 'admin';

/** What the OpenAPI document says of a route; types and validation come from the same schemas. */
export type RouteContract = {
  method: 'get' | 'post' | 'patch' | 'delete';
  /** Express's form: `/admin/campaigns/:id`. */
  path: string;
  summary: string;
  description?: string;
  tag: 'flash sale' | 'coupons' | 'waiting room' | 'payment' | 'admin' | 'operations';
  caller: Caller;
  params?: z.ZodObject;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  body?: z.ZodType;
  /** Bodies of other media types that it takes too. */
  otherBodies?: Record<string, z.ZodType>;
  answers: Record<number, { description: string; data?: z.ZodType; contentType?: string }>;
  errors: readonly ErrorCode[];
};

export type Route = {
  contract: RouteContract;
  /**
   * Answers a request that may not come here at all, from what its head says; returns whether it did. It runs before the body
   * is read, and whichever spelling of the target has led to the route. It may run twice for a request that it lets pass.
   */
  guard?(req: Request, res: Response): boolean;
  handle(req: Request, res: Response): Promise<void> | void;
};
