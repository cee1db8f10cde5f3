import { z } from 'zod';

/** Setting that is a whole number. */
export const whole = (least: number, most: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, 'must be a whole number')
    .transform(Number)
    .refine((value) => value >= least && value <= most, `must be ${least} to ${most}`);
