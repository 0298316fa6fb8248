/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the errors of a server mean. A statement that failed was rolled back; what it had locked by
 * GET_LOCK stays locked.
 */
#include "engines/mysql/errors.h"

#include <errmsg.h>
#include <mysqld_error.h>

bool mysql_interrupted(unsigned error)
{
    return error == ER_QUERY_INTERRUPTED || error == 1969 /* MariaDB: its time is over */ ||
           error == 3024 /* MySQL: the same */;
}

enum sql_outcome mysql_outcome(unsigned error, int *code)
{
    *code = SNIB_OK;
    switch (error) {
    case 0:
        return SQL_ANSWERED;
    case ER_NO_SUCH_TABLE:
    case ER_SP_DOES_NOT_EXIST:
        return SQL_ABSENT;
    case ER_LOCK_DEADLOCK:
    case ER_LOCK_WAIT_TIMEOUT:
    case ER_CHECKREAD: /* changed since it was read */
    case ER_TABLE_DEF_CHANGED:
    case ER_QUERY_INTERRUPTED:
    case 1969:
    case 3024:
        return SQL_AGAIN;
    case ER_ACCESS_DENIED_ERROR:
    case ER_DBACCESS_DENIED_ERROR:
    case ER_TABLEACCESS_DENIED_ERROR:
    case ER_COLUMNACCESS_DENIED_ERROR:
    case ER_PROCACCESS_DENIED_ERROR:
    case ER_SPECIFIC_ACCESS_DENIED_ERROR:
    case ER_KILL_DENIED_ERROR:
        *code = SNIB_EDENIED;
        return SQL_REFUSED;
    case ER_BAD_FIELD_ERROR: /* tables of another kind have this prefix */
    case ER_OPTION_PREVENTS_STATEMENT:
    case ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION:
    case ER_READ_ONLY_MODE:
        *code = SNIB_EUNSAFE;
        return SQL_REFUSED;
    default:
        *code = SNIB_ESYS;
        return SQL_REFUSED;
    }
}

int mysql_lost_code(unsigned error)
{
    switch (error) {
    case ER_ACCESS_DENIED_ERROR:
    case ER_ACCESS_DENIED_NO_PASSWORD_ERROR:
    case ER_DBACCESS_DENIED_ERROR:
    case ER_HOST_NOT_PRIVILEGED:
    case ER_MUST_CHANGE_PASSWORD_LOGIN:
    case ER_ACCOUNT_HAS_BEEN_LOCKED:
    case CR_AUTH_PLUGIN_CANNOT_LOAD:
        return SNIB_EDENIED;
    case ER_BAD_DB_ERROR:
        return SNIB_EINVAL;
    case CR_OUT_OF_MEMORY:
        return SNIB_ENOMEM;
    default:
        return SNIB_EUNREACH;
    }
}
