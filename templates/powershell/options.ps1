[CmdletBinding()]
param(
    [Alias('WhatIf')] [switch] $DryRun,
    [switch] $Rollback
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'
# Windows PowerShell 5.1 is many times slower while it draws progress.
$ProgressPreference = 'SilentlyContinue'
$net = [Net.ServicePointManager]
$net::SecurityProtocol = $net::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
