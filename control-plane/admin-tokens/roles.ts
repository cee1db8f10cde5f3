import type { AdminServiceService } from '@semblance/proto/semblance/admin/v1/admin';

/** Roles of admin tokens. Each may do what those before it may. */
export const ROLES = ['read-only', 'support', 'owner'] as const;
export type Role = (typeof ROLES)[number];

/** Name of a method of AdminService, such as `ShowAccount`. */
export type AdminMethod = Capitalize<keyof typeof AdminServiceService & string>;

export function isRole(text: string): text is Role {
  return (ROLES as readonly string[]).includes(text);
}

/**
 * The least role for each method. Read-only tokens look; support helps one account, with what moves no money, shows
 * no secret and changes nothing for others; owners do everything.
 */
export const LEAST_ROLE: Readonly<Record<AdminMethod, Role>> = {
  CreateAccount: 'owner',
  TopUpAccount: 'owner',
  AdjustAccount: 'owner',
  ShowAccount: 'read-only',
  ListAccounts: 'read-only',
  CreateKey: 'owner',
  RevokeKey: 'support',
  LimitKey: 'support',
  SetKey: 'owner',
  ShowCaps: 'read-only',
  SetCaps: 'owner',
  ListKeys: 'read-only',
  ShowSecret: 'owner',
  RotateSecret: 'owner',
  PromoteSecret: 'owner',
  ListDeliveries: 'read-only',
  ReplayDelivery: 'support',
  ListUsage: 'read-only',
  SummarizeUsage: 'read-only',
  SummarizeAccounts: 'read-only',
  ListJobs: 'read-only',
  ShowJob: 'read-only',
  ShowCapacity: 'read-only',
  ListSessions: 'read-only',
  EndSession: 'support',
  SwitchCapability: 'owner',
  ListCapabilities: 'read-only',
  ShowLimits: 'read-only',
  SetLimits: 'support',
  SetRates: 'owner',
  PreviewRates: 'read-only',
  ListRates: 'read-only',
  ResetRates: 'owner',
  CancelRates: 'owner',
  ListSettings: 'read-only',
  SetSetting: 'owner',
  ListVoices: 'read-only',
  AddVoice: 'owner',
  RemoveVoice: 'owner',
  ListAudit: 'read-only',
  ExportAudit: 'read-only',
  CreateAdminToken: 'owner',
  ListAdminTokens: 'read-only',
  RevokeAdminToken: 'owner',
  RotateAdminToken: 'owner',
  ListMedia: 'read-only',
  DeleteMedia: 'support',
};

export function mayCall(role: Role, method: AdminMethod): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(LEAST_ROLE[method]);
}
