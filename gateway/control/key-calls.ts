import type {
  CreateAccountKeyRequest,
  CreateAccountKeyResponse,
  GetAccountCapsRequest,
  GetAccountCapsResponse,
  ListAccountKeysRequest,
  ListAccountKeysResponse,
  RevokeAccountKeyRequest,
  SetAccountCapsRequest,
  SetAccountCapsResponse,
  SetAccountKeyRequest,
  SetAccountKeyResponse,
} from '@semblance/proto/semblance/control/v1/control';
import type { GatewayContext } from '../http/context.ts';

/** Calls with which the holder of an account manages keys and caps. */
export interface KeyCalls {
  listAccountKeys(ctx: GatewayContext, request: ListAccountKeysRequest): Promise<ListAccountKeysResponse>;
  createAccountKey(ctx: GatewayContext, request: CreateAccountKeyRequest): Promise<CreateAccountKeyResponse>;
  setAccountKey(ctx: GatewayContext, request: SetAccountKeyRequest): Promise<SetAccountKeyResponse>;
  revokeAccountKey(ctx: GatewayContext, request: RevokeAccountKeyRequest): Promise<unknown>;
  getAccountCaps(ctx: GatewayContext, request: GetAccountCapsRequest): Promise<GetAccountCapsResponse>;
  setAccountCaps(ctx: GatewayContext, request: SetAccountCapsRequest): Promise<SetAccountCapsResponse>;
}
